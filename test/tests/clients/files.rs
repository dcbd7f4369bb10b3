//! Clients that fetch a file or a repository.

use paddock_test::registry::Registry;

use crate::fetch::{Fetch, is_there};

#[test]
fn curl_fetches_through_the_guard() {
    if !is_there("curl", true) {
        return;
    }
    let registry = Registry::start();
    registry.write("file", "fetched\n");
    Fetch {
        command: "curl --silent --show-error --fail --cacert $CA $BASE/file",
        requests: &["GET /file 200"],
        refusal: "403",
        tries: 1,
    }
    .try_from(&registry, &[]);
}

#[test]
fn git_fetches_through_the_guard() {
    if !is_there("git", true) {
        return;
    }
    let registry = Registry::start();
    let objects = registry.add_repository();
    let mut requests = vec![
        "GET /git/tiny.git/info/refs?service=git-upload-pack 200".to_owned(),
        "GET /git/tiny.git/HEAD 200".to_owned(),
    ];
    requests.extend(objects.iter().map(|object| {
        let (directory, file) = object.split_at(2);
        format!("GET /git/tiny.git/objects/{directory}/{file} 200")
    }));
    let requests: Vec<_> = requests.iter().map(String::as_str).collect();
    Fetch {
        command: "export GIT_SSL_CAINFO=$CA\n\
            if [ -x /usr/bin/git ]; then PATH=/usr/bin:$PATH; fi\n\
            git clone --quiet $BASE/git/tiny.git && cat tiny/file",
        requests: &requests,
        refusal: "403",
        tries: 1,
    }
    .try_from(&registry, &[]);
}
