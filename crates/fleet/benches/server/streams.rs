//! Many who listen to the events.

use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::ours::Server;

const LISTENERS: usize = 1_000;
/// How many threads read: each reads its share of the streams one after the other.
const READERS: usize = 8;
const ROUNDS: usize = 10;

/// How long an event takes to reach all of them.
pub fn report(temp: &Path) {
    let server = Server::start(&temp.join("streams"), None);
    let mut client = server.client();
    let body = json!({ "title": "Heard" });
    client.json("POST", "/missions", &body);
    let mut shares: Vec<Vec<_>> = (0..READERS).map(|_| Vec::new()).collect();
    for number in 0..LISTENERS {
        shares[number % READERS].push(server.client().listen());
    }
    let memory = server.resident();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|round| {
            let text = format!("heard {round}");
            std::thread::scope(|scope| {
                let began = Instant::now();
                let note = json!({ "kind": "lesson", "text": text }).to_string();
                client.send("POST", "/ops/add_note", &note);
                let readers: Vec<_> = shares
                    .iter_mut()
                    .map(|share| {
                        scope.spawn(move || {
                            for stream in share {
                                let mut line = String::new();
                                while !line.starts_with("event: note_added") {
                                    line.clear();
                                    assert!(
                                        stream.read_line(&mut line).unwrap() > 0,
                                        "a stream ended"
                                    );
                                }
                            }
                        })
                    })
                    .collect();
                for reader in readers {
                    reader.join().unwrap();
                }
                began.elapsed()
            })
        })
        .collect();
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "| an event to {LISTENERS} listeners (SSE), from the request to the last of them | p50 {:.0} ms, most {:.0} ms | | | | |",
        ms(times[ROUNDS / 2]),
        ms(times[ROUNDS - 1])
    );
    println!("| memory with {LISTENERS} listeners | {memory:.1} MB | | | | |");
}
