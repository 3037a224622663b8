//! The descriptions of the API. Tests make them and write them down below docs/; the program carries them packed.

use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::Value;

/// The OpenAPI 3.1 document of everything that is served.
pub fn openapi() -> &'static Value {
    static READ: LazyLock<Value> =
        LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"))));
    &READ
}

/// The JSON schemas of records and answers, by name.
pub fn schemas() -> &'static Value {
    static READ: LazyLock<Value> =
        LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/schemas.json.gz"))));
    &READ
}

/// The packed description is JSON: a test compares it with the one it makes.
fn unpacked(packed: &[u8]) -> Value {
    let mut text = String::new();
    match GzDecoder::new(packed).read_to_string(&mut text) {
        Ok(_) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => Value::Null,
    }
}
