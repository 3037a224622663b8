//! The seed's short checksums: 16 hexadecimal digits of SHA-256 over what `JSON.stringify` makes of a
//! section. Flightline's own checkpoints carry whole ones; these are for files that the seed reads.

use super::{AGENTS, CHECKSUMS, CONTEXT, FILE_SYSTEM, FieldForm, Json, WORKFLOW};
use crate::dialect::document::DialectDocument;
use crate::event::sha256_hex;

/// The parts of a checkpoint that have a checksum.
const SECTIONS: [(&str, FieldForm); 4] = [
    ("workflow", WORKFLOW),
    ("agents", AGENTS),
    ("context", CONTEXT),
    ("fileSystem", FILE_SYSTEM),
];

/// Returns the sections whose hash differs from the one in the document, `overall` last; none when the document is
/// sound.
///
/// The seed hashes sections when it writes them, with every field in them, and again after reading
/// them, without the fields it does not know. Either is right.
pub fn verify(checkpoint: &Json) -> Vec<&'static str> {
    let said = &checkpoint["metadata"]["checksums"];
    let mut wrong = Vec::new();
    for (key, form) in SECTIONS {
        let (section, sum) = (&checkpoint[key], said.word(key));
        if sum != short(section) && sum != short(&form.arranged(section)) {
            wrong.push(key);
        }
    }
    if said.word("overall") != overall(said) {
        wrong.push("overall");
    }
    wrong
}

/// Sets checksums and size to what the document holds: to be called when it is complete.
pub fn seal(checkpoint: &mut DialectDocument) {
    for (key, form) in SECTIONS {
        let sum = short(&form.arranged(&checkpoint[key]));
        checkpoint["metadata"]["checksums"][key] = sum.into();
    }
    let said = &mut checkpoint["metadata"]["checksums"];
    said["overall"] = overall(said).into();
    // The size is a part of the text that it measures. From round to round it goes one way only, so this ends.
    loop {
        let size = Json::from(checkpoint.write().len() as u64);
        let said = &mut checkpoint["metadata"]["checkpointSize"];
        if *said == size {
            return;
        }
        *said = size;
    }
}

/// Over the four others, with an empty `overall`, in the seed's order.
fn overall(checksums: &Json) -> String {
    let mut bare = CHECKSUMS.arranged(checksums);
    bare["overall"] = "".into();
    short(&bare)
}

fn short(json: &Json) -> String {
    let mut hash = sha256_hex(&json.stringify());
    hash.truncate(16);
    hash
}
