//! Clients of package registries.

use std::path::PathBuf;

use paddock_test::registry::Registry;

use crate::fetch::{Fetch, installed, is_there, missing};

/// What every client of npm's registry asks for.
const NPM: [&str; 2] = ["GET /npm/tiny 200", "GET /npm/tiny/-/tiny-1.0.0.tgz 200"];

#[test]
fn npm_fetches_through_the_guard() {
    if !is_there("npm", true) {
        return;
    }
    let registry = Registry::start();
    registry.add_npm_package();
    Fetch {
        command: "echo '{}' >package.json\n\
            npm install --cafile=$CA --registry=$BASE/npm/ --no-audit --no-fund --no-update-notifier tiny\n\
            cat node_modules/tiny/index.js",
        requests: &NPM,
        refusal: "403 Forbidden",
        tries: 1,
    }
    .try_from(&registry, &[]);
}

/// A client of npm's registry that itself is a package, run by the system's node.
fn package(script: &str, command: &str, requests: &[&str], refusal: &str, tries: usize) {
    let Some(directory) = installed(script, false).filter(|_| is_there("node", true)) else {
        return;
    };
    let registry = Registry::start();
    registry.add_npm_package();
    let command = command.replace("CLIENT", directory.join(script).to_str().unwrap());
    Fetch { command: &command, requests, refusal, tries }.try_from(&registry, &[directory]);
}

#[test]
fn yarn_1_fetches_through_the_guard() {
    package(
        "node_modules/yarn/bin/yarn.js",
        "echo '{}' >package.json\n\
         export YARN_REGISTRY=$BASE/npm/ npm_config_cafile=$CA\n\
         node CLIENT add --non-interactive tiny\n\
         cat node_modules/tiny/index.js",
        &NPM,
        "403",
        5,
    );
}

#[test]
fn yarn_berry_fetches_through_the_guard() {
    package(
        "node_modules/@yarnpkg/cli-dist/bin/yarn.js",
        "echo '{}' >package.json && : >yarn.lock\n\
         export YARN_NPM_REGISTRY_SERVER=$BASE/npm YARN_UNSAFE_HTTP_WHITELIST=registry.test \
             YARN_HTTPS_CA_FILE_PATH=$CA YARN_NODE_LINKER=node-modules YARN_ENABLE_TELEMETRY=0\n\
         node CLIENT add tiny\n\
         cat node_modules/tiny/index.js",
        &NPM,
        "403",
        1,
    );
}

#[test]
fn pnpm_fetches_through_the_guard() {
    package(
        "node_modules/pnpm/bin/pnpm.cjs",
        "echo '{}' >package.json\n\
         export npm_config_registry=$BASE/npm/ npm_config_cafile=$CA npm_config_update_notifier=false\n\
         node CLIENT add tiny\n\
         cat node_modules/tiny/index.js",
        &NPM,
        "403",
        1,
    );
}

#[test]
fn buns_installer_fetches_through_the_guard() {
    let program = "node_modules/@oven/bun-linux-x64-baseline/bin/bun";
    let Some(directory) = installed(program, false) else { return };
    let registry = Registry::start();
    registry.add_npm_package();
    let bun = directory.join(program);
    Fetch {
        command: &format!(
            "echo '{{}}' >package.json\n\
             {} add --registry $BASE/npm/ --cafile $CA tiny\n\
             cat node_modules/tiny/index.js",
            bun.display()
        ),
        requests: &NPM,
        refusal: "403",
        tries: 1,
    }
    .try_from(&registry, &[directory]);
}

const PYTHON: [&str; 2] = ["GET /pip/simple/tiny/ 200", "GET /pip/tiny-1.0.0-py3-none-any.whl 200"];

#[test]
fn pip_fetches_through_the_guard() {
    if !(is_there("python3", true) && is_there("pip3", true)) {
        return;
    }
    let registry = Registry::start();
    registry.add_python_package();
    Fetch {
        command: "python3 -m pip install --quiet --cert $CA --trusted-host registry.test \
                --index-url $BASE/pip/simple/ --target . tiny\n\
            cat tiny.py",
        requests: &PYTHON,
        refusal: "Tunnel connection failed: 403 Forbidden",
        tries: 6,
    }
    .try_from(&registry, &[]);
}

#[test]
fn uv_fetches_through_the_guard() {
    let Some(directory) = installed("python/bin/uv", false).filter(|_| is_there("python3", true))
    else {
        return;
    };
    let registry = Registry::start();
    registry.add_python_package();
    let uv = directory.join("python/bin/uv");
    Fetch {
        command: &format!(
            "export SSL_CERT_FILE=$CA\n\
             {} pip install --no-cache --python /usr/bin/python3 --target . \
                 --index-url $BASE/pip/described/ tiny\n\
             cat tiny.py",
            uv.display()
        ),
        requests: &[
            "GET /pip/described/tiny/ 200",
            "GET /pip/tiny-1.0.0-py3-none-any.whl.metadata 200",
            "GET /pip/tiny-1.0.0-py3-none-any.whl 200",
        ],
        refusal: "tunnel error",
        tries: 4,
    }
    .try_from(&registry, &[directory]);
}

#[test]
fn cargo_fetches_through_the_guard() {
    let toolchain = std::env::var_os("PADDOCK_TEST_RUST").map(PathBuf::from);
    let Some(toolchain) = toolchain.filter(|path| path.join("bin/cargo").is_file()) else {
        missing("PADDOCK_TEST_RUST names no Rust toolchain; scripts/test.sh sets it", true);
        return;
    };
    let registry = Registry::start();
    registry.add_crate();
    let command = format!(
        "export CARGO_HTTP_CAINFO=$CA PATH={}:$PATH\n\
         mkdir src && : >src/lib.rs\n\
         printf '[package]\\nname = \"user\"\\nedition = \"2021\"\\n\
             [dependencies]\\ntiny = {{ version = \"1\", registry = \"own\" }}\\n' >Cargo.toml\n\
         cargo fetch --config \"registries.own.index='sparse+$BASE/cargo/'\"\n\
         cat home/.cargo/registry/src/*/tiny-1.0.0/Cargo.toml >/dev/null && echo fetched",
        toolchain.join("bin").display()
    );
    Fetch {
        command: &command,
        requests: &[
            "GET /cargo/config.json 200",
            "GET /cargo/ti/ny/tiny 200",
            "GET /cargo/tiny-1.0.0.crate 200",
        ],
        refusal: "CONNECT tunnel failed, response 403",
        tries: 4,
    }
    .try_from(&registry, &[toolchain]);
}

#[test]
fn go_fetches_through_the_guard() {
    let Some(directory) = installed("python/go/bin/go", false) else { return };
    let registry = Registry::start();
    registry.add_go_module();
    let go = directory.join("python/go/bin/go");
    Fetch {
        command: &format!(
            "export SSL_CERT_FILE=$CA GOPROXY=$BASE/go GONOSUMDB='*' GOFLAGS=-modcacherw\n\
             printf 'module user\\n' >go.mod\n\
             {} mod download registry.test/tiny@v1.0.0\n\
             grep -q tiny home/go/pkg/mod/registry.test/tiny@v1.0.0/tiny.go && echo fetched",
            go.display()
        ),
        requests: &[
            "GET /go/registry.test/tiny/@v/v1.0.0.info 200",
            "GET /go/registry.test/tiny/@v/v1.0.0.mod 200",
            "GET /go/registry.test/tiny/@v/v1.0.0.zip 200",
        ],
        refusal: "Forbidden",
        tries: 1,
    }
    .try_from(&registry, &[directory]);
}
