//! A collector on this machine: it takes what is sent, and reads it as far as a test wants to know.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What arrived.
#[derive(Default)]
pub struct Arrived {
    pub spans: Vec<Span>,
    /// What is said of the server.
    pub resource: BTreeMap<String, String>,
    /// Every head and every body, byte by byte.
    pub bytes: Vec<u8>,
    pub heads: Vec<String>,
}

/// A span, as far as it is looked at.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub name: String,
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub state: String,
    pub kind: u64,
    pub start: u64,
    pub end: u64,
    pub told: BTreeMap<String, String>,
    pub failed: bool,
}

impl Span {
    /// What it says under this name.
    pub fn says(&self, name: &str) -> &str {
        self.told.get(name).map_or("", String::as_str)
    }
}

/// How it answers.
#[derive(Clone, Copy)]
pub enum Manner {
    /// It takes everything.
    Takes,
    /// It reads, and never says a word.
    Hangs,
    /// It is unwell, and says so.
    Unwell,
}

pub struct Collector {
    pub address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    arrived: Arc<(Mutex<Arrived>, Condvar)>,
}

impl Collector {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let manner = Arc::new(Mutex::new(manner));
        let address = listener.local_addr().unwrap();
        let arrived: Arc<(Mutex<Arrived>, Condvar)> = Arc::default();
        let (kept, behaves) = (Arc::clone(&arrived), Arc::clone(&manner));
        // Both threads end with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, behaves) = (Arc::clone(&kept), Arc::clone(&behaves));
                std::thread::spawn(move || while take(&stream, &behaves, &kept).is_some() {});
            }
        });
        Self {
            address,
            manner,
            arrived,
        }
    }

    /// From now on it takes everything.
    pub fn recovers(&self) {
        *self.manner.lock().unwrap() = Manner::Takes;
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until that is so of what arrived.
    pub fn until<T>(&self, what: &str, mut find: impl FnMut(&Arrived) -> Option<T>) -> T {
        let (arrived, news) = &*self.arrived;
        let mut found = None;
        let waiting = |arrived: &mut Arrived| {
            found = find(arrived);
            found.is_none()
        };
        let arrived = arrived.lock().unwrap();
        let (arrived, _) = news.wait_timeout_while(arrived, PATIENCE, waiting).unwrap();
        found.unwrap_or_else(|| panic!("{what} did not arrive: {:#?}", arrived.spans))
    }

    /// The span of the request that goes by this id.
    pub fn request(&self, id: &str) -> Span {
        self.until(id, |arrived| {
            let mut spans = arrived.spans.iter();
            spans
                .find(|span| span.says("flightline.request_id") == id)
                .cloned()
        })
    }

    /// Looks at all that arrived until now.
    pub fn look<T>(&self, at: impl FnOnce(&Arrived) -> T) -> T {
        at(&self.arrived.0.lock().unwrap())
    }
}

/// Reads one request and answers it; nothing when there is none any more.
fn take(
    mut stream: &TcpStream,
    manner: &Mutex<Manner>,
    kept: &(Mutex<Arrived>, Condvar),
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(said) = lower.strip_prefix("content-length:") {
            length = said.trim().parse().ok()?;
        }
        head += &lower;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    {
        let mut arrived = kept.0.lock().unwrap();
        arrived.bytes.extend_from_slice(head.as_bytes());
        arrived.bytes.extend_from_slice(&body);
        if !head.contains("content-encoding") {
            read(&body, &mut arrived);
        }
        arrived.heads.push(head);
        kept.1.notify_all();
    }
    let manner = *manner.lock().unwrap();
    match manner {
        Manner::Unwell => stream
            .write_all(b"HTTP/1.1 503 Unwell\r\ncontent-length: 0\r\n\r\n")
            .ok(),
        Manner::Takes => stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .ok(),
        // Until the other end has had enough.
        Manner::Hangs => stream.read(&mut [0]).ok().and(None),
    }
}

/// A field of a message of Protocol Buffers.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("{number} where bytes were expected"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(bytes) => panic!("{bytes:?} where a number was expected"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn hex(&self) -> String {
        self.bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return number;
        }
        shift += 7;
    }
}

/// The fields of a message, by their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut cut = |length: usize| {
            let (part, rest) = bytes.split_at(length);
            bytes = rest;
            part
        };
        let field = match key & 7 {
            1 => Field::Number(u64::from_le_bytes(cut(8).try_into().unwrap())),
            5 => Field::Number(u64::from(u32::from_le_bytes(cut(4).try_into().unwrap()))),
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(part)
            }
            other => panic!("a field of kind {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

/// `ExportTraceServiceRequest`, by the numbers of opentelemetry-proto.
fn read(body: &[u8], arrived: &mut Arrived) {
    for (_, of_resource) in fields(body) {
        for (number, field) in fields(of_resource.bytes()) {
            match number {
                1 => arrived.resource.extend(attributes(field.bytes(), 1)),
                2 => {
                    let of_scope = fields(field.bytes());
                    let spans = of_scope.iter().filter(|(number, _)| *number == 2);
                    arrived
                        .spans
                        .extend(spans.map(|(_, field)| span(field.bytes())));
                }
                _ => {}
            }
        }
    }
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span {
        told: attributes(bytes, 9),
        ..Span::default()
    };
    for (number, field) in fields(bytes) {
        match number {
            1 => span.trace = field.hex(),
            2 => span.id = field.hex(),
            3 => span.state = field.text(),
            4 => span.parent = field.hex(),
            5 => span.name = field.text(),
            6 => span.kind = field.number(),
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            15 => {
                let status = fields(field.bytes());
                span.failed = status
                    .iter()
                    .any(|(number, field)| *number == 3 && field.number() == 2);
            }
            _ => {}
        }
    }
    span
}

/// Pairs of names and values, which are at this number.
fn attributes(bytes: &[u8], at: u64) -> BTreeMap<String, String> {
    let all = fields(bytes).into_iter();
    all.filter(|(number, _)| *number == at)
        .map(|(_, field)| {
            let pair = fields(field.bytes());
            let value = fields(pair[1].1.bytes()).into_iter().next();
            let value = match value {
                Some((_, Field::Number(number))) => number.to_string(),
                Some((_, text)) => text.text(),
                None => String::new(),
            };
            (pair[0].1.text(), value)
        })
        .collect()
}
