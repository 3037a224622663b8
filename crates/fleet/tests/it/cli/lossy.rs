//! A way to a server that loses answers: requests arrive and are done, and the client does not hear of it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What stands between a command and its server.
pub struct Lossy {
    url: String,
    way: Arc<Way>,
}

struct Way {
    to: Mutex<String>,
    /// How many answers are still to be lost, and how many were.
    lose: AtomicUsize,
    lost: AtomicUsize,
}

impl Lossy {
    /// Stands before this server.
    pub fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let way = Arc::new(Way {
            to: Mutex::new(server),
            lose: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
        });
        let taken = Arc::clone(&way);
        // It ends with the test's process: nobody waits for it.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let way = Arc::clone(&taken);
                std::thread::spawn(move || pass(&stream, &way));
            }
        });
        Self { url, way }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Loses the next answers.
    pub fn lose(&self, count: usize) {
        self.way.lose.store(count, Ordering::SeqCst);
    }

    /// How many were lost.
    pub fn lost(&self) -> usize {
        self.way.lost.load(Ordering::SeqCst)
    }

    /// Stands before another server from now on.
    pub fn lead_to(&self, server: String) {
        *self.way.to.lock().expect("no thread fails here") = server;
    }
}

/// Passes requests on, one after the other, until one end is gone.
fn pass(client: &TcpStream, way: &Way) -> Option<()> {
    let mut asked = BufReader::new(client);
    loop {
        let request = message(&mut asked)?;
        let to = way.to.lock().ok()?.clone();
        let mut server = TcpStream::connect(to.trim_start_matches("http://")).ok()?;
        server.write_all(&request).ok()?;
        let answer = message(&mut BufReader::new(&server))?;
        let lose = |left: usize| left.checked_sub(1);
        if way
            .lose
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose)
            .is_ok()
        {
            way.lost.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        (&mut &*client).write_all(&answer).ok()?;
    }
}

/// A request or an answer: its head, and as much as the head says.
pub fn message(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut whole, mut length) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if let Some(named) = text.strip_prefix("content-length:") {
            length = named.trim().parse().ok()?;
        }
        whole.extend(&line);
        if line == b"\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    whole.extend(body);
    Some(whole)
}
