//! Packs the published descriptions, which tests keep true, so that the program carries them in little room.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the repository, and writes where cargo tells it in the environment"
)]

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new("../../docs");
    let out = std::env::var("OUT_DIR")?;
    for name in ["openapi.json", "schemas.json"] {
        let from = docs.join(name);
        println!("cargo:rerun-if-changed={}", from.display());
        let to = File::create(Path::new(&out).join(format!("{name}.gz")))?;
        let mut packed = GzEncoder::new(to, Compression::best());
        packed.write_all(&fs::read(&from)?)?;
        packed.finish()?;
    }
    Ok(())
}
