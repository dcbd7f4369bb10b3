//! git over HTTPS, with a credential helper that the person set up in the agent's home.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use paddock_test::host::{Host, finish, skip};

use crate::is_there;

const NAME: &str = "code.test";

/// `git http-backend` behind TLS and a password, on the test host.
const SERVER: &str = r#"
import base64, http.server, os, ssl, subprocess, sys
root, certificate, key = sys.argv[1:4]
class Handler(http.server.BaseHTTPRequestHandler):
    def serve(self):
        wanted = "Basic " + base64.b64encode(b"ada:secret").decode()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic realm=code")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        names = {"CONTENT_TYPE": "Content-Type", "HTTP_CONTENT_ENCODING": "Content-Encoding",
                 "HTTP_GIT_PROTOCOL": "Git-Protocol"}
        given = {name: self.headers[header] for name, header in names.items() if self.headers[header]}
        environment = dict(os.environ, GIT_PROJECT_ROOT=root, GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path,
                           QUERY_STRING=query, REQUEST_METHOD=self.command, REMOTE_USER="ada",
                           CONTENT_LENGTH=str(len(body)), **given)
        answer = subprocess.run(["git", "http-backend"], input=body, env=environment, stdout=-1).stdout
        head, _, rest = answer.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for line in lines.items():
            self.send_header(*line)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)
    do_GET = do_POST = serve
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(host: &Host, root: &Path, directory: &Path) -> Self {
        let script = directory.join("server.py");
        std::fs::write(&script, SERVER).unwrap();
        let mut command = Command::new("/usr/bin/python3");
        host.dress(&mut command);
        command.arg(script).arg(root);
        command.args(["certificate.pem", "key.pem"].map(|name| directory.join(name)));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A bare repository, and a certificate for [`NAME`], beside the workspace.
fn prepare(host: &Host) -> (PathBuf, PathBuf) {
    let (root, directory) = (host.home().join("code"), host.home().join("server"));
    std::fs::create_dir_all(&directory).unwrap();
    let run = |program: &str, arguments: &str| {
        let mut command = Command::new(program);
        host.dress(&mut command);
        command.current_dir(&directory).args(arguments.split(' '));
        let run = finish(command);
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
    };
    let repository = root.join("one.git");
    run("git", &format!("init --quiet --bare --initial-branch=main {}", repository.display()));
    run("git", &format!("--git-dir={} config http.receivepack true", repository.display()));
    run(
        "openssl",
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 7 -subj /CN={NAME} \
             -addext subjectAltName=DNS:{NAME} -keyout key.pem -out certificate.pem"
        ),
    );
    (root, directory)
}

fn has_backend(host: &Host) -> bool {
    let mut command = Command::new("git");
    host.dress(&mut command);
    command.arg("--exec-path");
    let there = Path::new(finish(command).stdout.trim()).join("git-http-backend").exists();
    if !there {
        skip("git has no http-backend");
    }
    there
}

#[test]
fn git_commits_and_pushes_with_the_credential_that_the_person_gave_the_sandbox() {
    let host = Host::new();
    if !(is_there("git") && is_there("python3") && is_there("openssl") && has_backend(&host)) {
        return;
    }
    let (root, directory) = prepare(&host);
    let server = Server::start(&host, &root, &directory);
    host.configure(&format!(
        "[egress]\nhosts = [\"{NAME}:{}\"]\nexceptions = {{ \"{NAME}\" = \"127.0.0.1\" }}\n",
        server.port
    ));
    std::fs::copy(directory.join("certificate.pem"), host.workspace().join("ca.pem")).unwrap();
    let work = format!(
        "if [ -x /usr/bin/git ]; then PATH=/usr/bin:$PATH; fi\n\
         export GIT_TERMINAL_PROMPT=0 GIT_SSL_CAINFO=$PWD/ca.pem\n\
         [ -d one ] || git init --quiet --initial-branch=main one\n\
         cd one && echo $1 >>file && git add file && git commit --quiet --message=$1 &&\n\
         git push --quiet https://{NAME}:{}/one.git main && echo pushed",
        server.port
    );
    let run = |message: &str| host.standin(&[&format!("set -- {message}\n{work}")]);
    // Makes the agent's private home, and is the control: nobody knows a password.
    let without = run("first");
    assert!(!without.stdout.contains("pushed"), "{}", without.stdout);
    let home = host.agent_home("standin", "server");
    std::fs::write(
        home.join(".gitconfig"),
        format!(
            "[user]\nname = Ada\nemail = ada@example.com\n\
             [credential \"https://{NAME}:{}\"]\n\
             helper = \"!f() {{ echo username=ada; echo password=secret; }}; f\"\n",
            server.port
        ),
    )
    .unwrap();
    let pushed = run("second");
    assert_eq!(pushed.stdout, "pushed\n", "{}", pushed.stderr);
    let mut log = Command::new("git");
    host.dress(&mut log);
    log.arg("--git-dir").arg(root.join("one.git")).args(["log", "--format=%an %s", "main"]);
    assert_eq!(finish(log).stdout, "Ada second\n");
}
