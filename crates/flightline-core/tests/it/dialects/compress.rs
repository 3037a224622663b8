//! Compression: what goes in comes out, and nothing else does.

use flightline_core::dialect::compress::{CompressError, Compression};
use proptest::prelude::*;

/// Made by Node's zlib, as the seed's store does.
const NODE_GZIP: &[u8] = include_bytes!("data/orchestrator_running.json.gz");
const TEXT: &str = include_str!("data/orchestrator_running.json");
const MAX: usize = 1 << 20;

#[test]
fn what_was_packed_unpacks_and_is_known_by_its_first_bytes() {
    for compression in Compression::ALL {
        let packed = compression.pack(TEXT.as_bytes()).unwrap();
        assert_eq!(Compression::detect(&packed), compression);
        assert_eq!(compression.unpack(&packed, MAX).unwrap(), TEXT.as_bytes());
        assert_eq!(compression.pack(TEXT.as_bytes()).unwrap(), packed);
        let empty = compression.pack(b"").unwrap();
        assert_eq!(compression.unpack(&empty, MAX).unwrap(), b"");
    }
}

#[test]
fn what_node_packed_unpacks() {
    assert_eq!(Compression::detect(NODE_GZIP), Compression::Gzip);
    assert_eq!(
        Compression::Gzip.unpack(NODE_GZIP, MAX).unwrap(),
        TEXT.as_bytes()
    );
}

#[test]
fn a_bomb_is_refused_before_it_unfolds() {
    let large = vec![b' '; 64 << 20];
    for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let bomb = compression.pack(&large).unwrap();
        assert!(bomb.len() < 400_000, "{}", bomb.len());
        let error = compression.unpack(&bomb, MAX).unwrap_err();
        assert!(matches!(error, CompressError::TooLarge { max: MAX }));
        assert_eq!(error.to_string(), "it unfolds into more than 1048576 bytes");
    }
    let exactly = vec![b' '; MAX];
    for compression in Compression::ALL {
        let packed = compression.pack(&exactly).unwrap();
        assert_eq!(compression.unpack(&packed, MAX).unwrap(), exactly);
        assert!(compression.unpack(&packed, MAX - 1).is_err());
    }
}

#[test]
fn a_frame_that_wants_too_much_memory_is_refused() {
    // A Zstandard frame: magic, descriptor, the window it asks for, one empty block.
    let frame = |window: u8| [0x28, 0xb5, 0x2f, 0xfd, 0x00, window, 0x01, 0x00, 0x00];
    let eight_mebibytes = frame((23 - 10) << 3);
    assert_eq!(
        Compression::Zstd.unpack(&eight_mebibytes, MAX).unwrap(),
        b""
    );
    let two_gibibytes = frame((31 - 10) << 3);
    let error = Compression::Zstd.unpack(&two_gibibytes, MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "its zstd data is damaged: Frame requires too much memory for decoding"
    );
}

#[test]
fn what_is_cut_short_or_has_more_behind_it_is_refused() {
    for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let packed = compression.pack(TEXT.as_bytes()).unwrap();
        for cut in 0..packed.len() {
            let unpacked = compression.unpack(&packed[..cut], MAX);
            assert!(unpacked.is_err(), "{compression:?} cut at {cut}");
        }
        let more = [packed.as_slice(), b"more"].concat();
        assert!(compression.unpack(&more, MAX).is_err(), "{compression:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..5_000)) {
        for compression in Compression::ALL {
            let packed = compression.pack(&bytes).unwrap();
            prop_assert_eq!(compression.unpack(&packed, MAX).unwrap(), bytes.clone());
        }
    }

    /// Whatever happens to the bytes, either what was packed comes out or nothing.
    #[test]
    fn damage_is_found(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
            let mut packed = compression.pack(TEXT.as_bytes()).unwrap();
            let at = at.index(packed.len());
            packed[at] ^= 1 << bit;
            if let Ok(unpacked) = compression.unpack(&packed, MAX) {
                prop_assert_eq!(unpacked, TEXT.as_bytes());
            }
        }
    }

    #[test]
    fn any_bytes_unpack_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let magics: [&[u8]; 3] = [
            &[0x1f, 0x8b, 0x08],
            &[0x04, 0x22, 0x4d, 0x18],
            &[0x28, 0xb5, 0x2f, 0xfd],
        ];
        for (compression, magic) in Compression::ALL[1..].iter().zip(magics) {
            let bytes = [magic, &bytes].concat();
            if let Ok(unpacked) = compression.unpack(&bytes, 1_000) {
                prop_assert!(unpacked.len() <= 1_000);
            }
        }
    }
}
