//! A server behind TLS: who is trusted to be it, and that a token is shown to nobody else.

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};

use crate::cli::far::Far;
use crate::cli::front::{Authority, Front};
use crate::cli::lossy::message;
use crate::cli::running::{Fleet, Ran};
use crate::cli::server::Server;
use crate::cli::world::World;

/// A command that talks to this address, trusting this authority.
fn at<'w>(far: &'w Far, url: &str, authority: &Path, typed: &str) -> Fleet<'w> {
    let line = far.line(typed).env("FLEET_SERVER", url);
    line.env("SSL_CERT_FILE", authority)
}

#[test]
fn a_server_behind_tls_is_as_any_other() {
    let (far, authority) = (Far::new(&["Model"]), Authority::new());
    let front = authority.front(&far.url, 2099);
    let url = front.url("localhost");
    let laptop = World::empty().local_only("it talks to the server of another world");
    let line = |typed: &str| {
        let line = laptop.line(typed).without("FLEET_TEST_NOW");
        let line = line.without("FLEET_TEST_IDS");
        // A proxy of the surroundings is not asked: it would be shown where the server is.
        line.env("SSL_CERT_FILE", authority.file())
            .env("HTTPS_PROXY", "http://127.0.0.1:1")
            .env("ALL_PROXY", "http://127.0.0.1:1")
    };
    let came_in = line(&format!("login {url}")).stdin(far.token.clone()).run();
    assert_eq!(
        (came_in.code, came_in.stderr.as_str()),
        (0, ""),
        "{came_in:?}"
    );
    assert_eq!(
        came_in.stdout,
        format!("This repository's fleet is at {url} from now on\n")
    );
    let list = line("sorties list").run();
    assert!(list.text().contains("Model"), "{list:?}");
    assert_eq!(line("note lesson \"from afar\"").run().code, 0);
    assert_eq!(far.notes(), ["from afar"]);
    let secret = far.token.rsplit('_').next().unwrap();
    assert!(
        front.requests().iter().all(|asked| asked.contains(secret)),
        "the token opens its door"
    );
    assert!(!front.showed(secret), "and nobody on the way reads it");
    assert!(!front.showed("from afar"));
}

/// The server there is not asked anything, and all commands say why.
fn check_distrusted(far: &Far, front: &Front, url: &str, authority: &Path, said: &Expect) {
    let world = World::empty().local_only("it talks to the server of another world");
    let began = Instant::now();
    let refused = world
        .line(&format!("login {url}"))
        .env("SSL_CERT_FILE", authority)
        .stdin(far.token.clone())
        .run();
    assert!(!world.home().join(".config").exists(), "nothing is kept");
    let plain = |ran: &Ran, code: i32| ran.refused(code).replace(url, "URL");
    let login = plain(&refused, 7);
    let reads = plain(&at(far, url, authority, "sorties list").run(), 7);
    let writes = plain(
        &at(far, url, authority, "sorties claim --next")
            .agent("ada")
            .run(),
        7,
    );
    assert_eq!(reads, writes, "it is known that nothing was done");
    said.assert_eq(&format!("{login}---\n{reads}"));
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "asking again does not help: {:?}",
        began.elapsed()
    );
    // What may wait waits, and is not lost.
    let kept = at(far, url, authority, "note lesson kept").run();
    assert_eq!(kept.code, 0, "{kept:?}");
    assert!(
        kept.stdout.starts_with("Queued on this machine only"),
        "{kept:?}"
    );
    assert!(front.connections() > 0, "somebody knocked");
    assert_eq!(front.requests(), [""; 0], "and said nothing");
    assert_eq!(far.notes(), [""; 0]);
}

#[test]
fn an_authority_that_nobody_here_knows_is_not_trusted() {
    let authority = Authority::new();
    // One of another name, and one that only has the same.
    for other in [Authority::named("Other"), Authority::new()] {
        let far = Far::new(&["Model"]);
        let front = authority.front(&far.url, 2099);
        let url = front.url("localhost");
        let said = expect![[r#"
            error: the server at URL cannot be reached: its certificate is by an authority that this machine does not trust

            hint: nothing was remembered: have this machine trust the server's authority, or name the file with its certificate in SSL_CERT_FILE: `export SSL_CERT_FILE=/path/ca.pem`
            ---
            error: the server at URL cannot be reached: its certificate is by an authority that this machine does not trust

            hint: nothing was done: have this machine trust the server's authority, or name the file with its certificate in SSL_CERT_FILE: `export SSL_CERT_FILE=/path/ca.pem`
        "#]];
        check_distrusted(&far, &front, &url, &other.file(), &said);
        // It comes to be trusted, and what waited is brought.
        let later = at(&far, &url, &authority.file(), "sorties list").run();
        assert_eq!(later.code, 0, "{later:?}");
        assert_eq!(far.notes(), ["kept"]);
    }
}

#[test]
fn a_certificate_for_another_name_is_not_trusted() {
    let (far, authority) = (Far::new(&["Model"]), Authority::new());
    let front = authority.front(&far.url, 2099);
    let said = expect![[r#"
        error: the server at URL cannot be reached: its certificate is for another name

        hint: nothing was remembered: use the name that the certificate is for, as in `fleet login https://NAME`
        ---
        error: the server at URL cannot be reached: its certificate is for another name

        hint: nothing was done: use the name that the certificate is for, as in `fleet login https://NAME`
    "#]];
    check_distrusted(
        &far,
        &front,
        &front.url("127.0.0.1"),
        &authority.file(),
        &said,
    );
}

#[test]
fn a_certificate_that_has_expired_is_not_trusted() {
    let (far, authority) = (Far::new(&["Model"]), Authority::new());
    let front = authority.front(&far.url, 2021);
    let said = expect![[r#"
        error: the server at URL cannot be reached: its certificate expired at 2021-02-01T00:00:00.000Z

        hint: nothing was remembered: renew the server's certificate; if it is valid, the clock of this machine is wrong
        ---
        error: the server at URL cannot be reached: its certificate expired at 2021-02-01T00:00:00.000Z

        hint: nothing was done: renew the server's certificate; if it is valid, the clock of this machine is wrong
    "#]];
    check_distrusted(
        &far,
        &front,
        &front.url("localhost"),
        &authority.file(),
        &said,
    );
}

#[test]
fn authorities_that_were_named_and_are_not_there_are_replaced_by_no_others() {
    let (far, authority) = (Far::new(&[]), Authority::new());
    let front = authority.front(&far.url, 2099);
    let (missing, empty) = (far.world.home().join("ca.pem"), far.world.write("ca", ""));
    for file in [missing, empty] {
        let refused = at(&far, &front.url("localhost"), &file, "status").run();
        let told = refused.refused(7);
        assert!(
            told.starts_with("error: cannot read trusted certificates from SSL_CERT_FILE"),
            "{told}"
        );
    }
    assert_eq!(front.connections(), 0);
}

#[test]
fn a_server_that_speaks_no_tls_is_said() {
    let (far, authority) = (Far::new(&[]), Authority::new());
    let url = far.url.replace("http://", "https://");
    let refused = at(&far, &url, &authority.file(), "status").run();
    expect![[r#"
        error: the server at URL cannot be reached: it does not support TLS

        hint: nothing was done: `fleet serve` speaks plain HTTP: give the address of the proxy with TLS in front of it, or `http://` on the server's own machine
    "#]].assert_eq(&refused.refused(7).replace(&url, "URL"));
}

#[test]
fn a_token_that_travels_in_the_clear_is_said_each_time() {
    let mut far = Far::new(&[]);
    far.go_down();
    let server = Server::start(&far.world, "--allow-host 0.0.0.0");
    far.url.clone_from(&server.url);
    far.server = Some(server);
    // An address that is not the loopback's, and leads there all the same.
    let (_, port) = far.url.rsplit_once(':').unwrap();
    let url = format!("http://0.0.0.0:{port}");
    let warning = format!(
        "warning: {url} is not encrypted: anyone on the network path can read the token and all data\n"
    );
    let world = World::empty().local_only("it talks to the server of another world");
    let line = world
        .line(&format!("login {url}"))
        .without("FLEET_TEST_NOW");
    let line = line.without("FLEET_TEST_IDS");
    let came_in = line.stdin(far.token.clone()).run();
    assert_eq!((came_in.code, came_in.stderr), (0, warning.clone()));
    let asked = far.line("note list").env("FLEET_SERVER", &url).run();
    assert_eq!((asked.code, asked.stderr), (0, warning));
    assert_eq!(
        far.ok("note list").stderr,
        "",
        "on this machine nobody listens"
    );
}

#[test]
fn a_token_goes_nowhere_else_than_to_its_server() {
    let far = Far::new(&[]);
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = format!("http://{}", elsewhere.local_addr().unwrap());
    for (status, path) in [
        (301, "/api/v1/ops/tell_time"),
        (302, "/"),
        (303, ""),
        (307, "/api/v1/ops/tell_time"),
        (308, "/api/v1/ops/tell_time"),
    ] {
        let url = leading(status, format!("{there}{path}"));
        let world = World::empty().local_only("it talks to the server of another world");
        let refused = world
            .line(&format!("login {url}"))
            .stdin(far.token.clone())
            .run();
        assert_eq!(
            refused
                .refused(6)
                .replace(&url, "URL")
                .replace(&there, "THERE"),
            "error: URL redirects to THERE, where its token is not sent\n\n\
             hint: if the server is there, log in there with `fleet login THERE`\n"
        );
        assert!(!world.home().join(".config").exists(), "nothing is kept");
    }
    elsewhere.set_nonblocking(true).unwrap();
    let came = elsewhere.accept();
    assert!(came.is_err(), "somebody went there: {came:?}");
}

/// What sends everybody on to another address.
fn leading(status: u16, to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        ready.send(()).unwrap();
        for mut stream in listener.incoming().flatten() {
            message(&mut BufReader::new(&stream));
            let answer = format!(
                "HTTP/1.1 {status} Elsewhere\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    is_ready.recv().unwrap();
    url
}
