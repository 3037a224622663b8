//! What stands where the server was, and means harm by its answers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cli::far::Far;

/// A server whose answers have no end: where it is, and how much it got rid of.
fn endless() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    // It ends with the test's process: nobody waits for it.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nfleet-api: 1\r\ncontent-type: application/json\r\n\r\n{\"outcome\": [\"";
            let (mut left, more) = (stream.write_all(head.as_bytes()), [b'x'; 64 * 1024]);
            while left.is_ok() {
                left = stream.write_all(&more);
                count.fetch_add(more.len(), Ordering::SeqCst);
            }
        }
    });
    (url, sent)
}

#[test]
fn an_answer_without_an_end_is_given_up() {
    let far = Far::new(&[]);
    let (url, sent) = endless();
    for (typed, code) in [("missions list", 1), ("missions create M", 7)] {
        sent.store(0, Ordering::SeqCst);
        let ran = far.line(typed).env("FLEET_SERVER", &url).run();
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(
            ran.stderr
                .contains("is larger than 32 MiB, and was not read"),
            "{ran:?}"
        );
        let sent = sent.load(Ordering::SeqCst);
        // What the system holds on the way counts as sent.
        assert!(sent < 64 * 1024 * 1024, "{sent}");
    }
}
