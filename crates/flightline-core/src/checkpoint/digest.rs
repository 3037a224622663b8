//! Hashes the values that a checkpoint names: each by a line `kind id rev sha`, the lines into sections.

use crate::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::event::Hasher;
use crate::subject::Kind;

/// A section of the state: its hash, and the number of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct SectionDigest {
    /// The SHA-256 over the section's lines `kind id rev sha`, as the cut's `digest` says.
    pub sha256: String,
    /// The number of values in the section.
    pub count: u64,
}

/// The way in which the lines of a section are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Digest {
    /// The lines follow one another, by kind and id, as in the first checkpoints.
    #[default]
    Lines,
    /// The lines of each kind are in 256 buckets by their ids, so that a change touches one bucket: a bucket hashes its
    /// lines by id, a kind its buckets by number, a section its kinds by name.
    Buckets,
}

impl Digest {
    pub const NEW: Self = Self::Buckets;

    /// Returns true for the way of the first checkpoints, which serde does not write.
    pub fn is_first(&self) -> bool {
        *self == Self::Lines
    }
}

pub const fn section_of(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Mission => Some("mission"),
        Kind::Sortie | Kind::Subtask | Kind::File | Kind::Error | Kind::Review => Some("sorties"),
        Kind::Lock => Some("locks"),
        Kind::Message | Kind::Delivery => Some("messages"),
        Kind::Agent | Kind::Step => Some("agents"),
        Kind::Note => Some("notes"),
        Kind::Effect => Some("effects"),
        Kind::Setting
        | Kind::Checkpoint
        | Kind::Milestone
        | Kind::Recovery
        | Kind::Briefing
        | Kind::Import
        | Kind::Original
        | Kind::FileSystem
        | Kind::Token => None,
    }
}

/// A line of a section: a value, named by its revision and hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DigestLine {
    pub kind: Kind,
    pub id: String,
    pub rev: u64,
    pub sha: String,
}

/// Hashes lines into sections. Reads no documents.
pub fn sections(lines: Vec<DigestLine>, digest: Digest) -> BTreeMap<String, SectionDigest> {
    match digest {
        Digest::Lines => by_lines(lines),
        Digest::Buckets => by_buckets(&lines),
    }
}

fn by_lines(mut lines: Vec<DigestLine>) -> BTreeMap<String, SectionDigest> {
    lines.sort_by(|a, b| (a.kind.as_str(), &a.id).cmp(&(b.kind.as_str(), &b.id)));
    let mut hashers: BTreeMap<String, (Hasher, u64)> = BTreeMap::new();
    let mut text = String::new();
    for line in &lines {
        let Some(section) = section_of(line.kind) else {
            continue;
        };
        let (hasher, count) = hashers.entry(section.to_owned()).or_default();
        text.clear();
        write_line(&mut text, line.kind, &line.id, (line.rev, &line.sha));
        hasher.update(text.as_bytes());
        *count += 1;
    }
    hashers
        .into_iter()
        .map(|(name, (hasher, count))| {
            let sha256 = hasher.hex();
            (name, SectionDigest { sha256, count })
        })
        .collect()
}

fn by_buckets(lines: &[DigestLine]) -> BTreeMap<String, SectionDigest> {
    let mut kinds: BTreeMap<Kind, BTreeMap<&str, (u64, &str)>> = BTreeMap::new();
    for line in lines {
        let values = kinds.entry(line.kind).or_default();
        values.insert(&line.id, (line.rev, &line.sha));
    }
    let kinds = kinds.into_iter().map(|(kind, values)| {
        let mut digest = KindDigest::default();
        for id in values.keys() {
            digest.touch(id, Presence::There);
        }
        let of_kind = digest.finish(kind, |id| values.get(id).copied());
        (kind, of_kind)
    });
    sections_of_kinds(kinds)
}

pub fn sections_of_kinds(
    kinds: impl IntoIterator<Item = (Kind, SectionDigest)>,
) -> BTreeMap<String, SectionDigest> {
    let mut sorted: BTreeMap<&str, BTreeMap<&str, SectionDigest>> = BTreeMap::new();
    for (kind, of_kind) in kinds {
        if let Some(section) = section_of(kind).filter(|_| of_kind.count > 0) {
            let section = sorted.entry(section).or_default();
            section.insert(kind.as_str(), of_kind);
        }
    }
    let sections = sorted.into_iter().map(|(name, kinds)| {
        let mut hasher = Hasher::default();
        for (kind, of_kind) in &kinds {
            hasher.update(format!("{kind} {}\n", of_kind.sha256).as_bytes());
        }
        let section = SectionDigest {
            sha256: hasher.hex(),
            count: kinds.values().map(|of_kind| of_kind.count).sum(),
        };
        (name.to_owned(), section)
    });
    sections.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Gone,
}

/// The digest of all values of one kind, which follows each change of them.
#[derive(Clone, Debug, Default)]
pub struct KindDigest {
    buckets: BTreeMap<u8, Bucket>,
    count: u64,
    sha256: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    ids: BTreeSet<String>,
    /// The hash of the bucket; none since something in the bucket changed.
    sha256: Option<String>,
}

impl KindDigest {
    /// Records that a value has changed, has come or is gone.
    pub fn touch(&mut self, id: &str, presence: Presence) {
        let bucket = self.buckets.entry(bucket_of(id)).or_default();
        bucket.sha256 = None;
        self.sha256 = None;
        match presence {
            Presence::There if !bucket.ids.contains(id) => {
                bucket.ids.insert(id.to_owned());
                self.count += 1;
            }
            Presence::There => {}
            Presence::Gone => self.count -= u64::from(bucket.ids.remove(id)),
        }
        if bucket.ids.is_empty() {
            self.buckets.remove(&bucket_of(id));
        }
    }

    /// The digest: hashes the buckets that were touched since the last time. `line` says the revision and the hash of a value.
    pub fn finish<'v>(
        &mut self,
        kind: Kind,
        line: impl Fn(&str) -> Option<(u64, &'v str)>,
    ) -> SectionDigest {
        if self.sha256.is_none() {
            let (mut all, mut text) = (Hasher::default(), String::new());
            for (number, bucket) in &mut self.buckets {
                let sha256 = bucket.sha256.get_or_insert_with(|| {
                    let mut hasher = Hasher::default();
                    for id in &bucket.ids {
                        text.clear();
                        // An id without a known line is no value: its bucket matches nothing.
                        write_line(&mut text, kind, id, line(id).unwrap_or_default());
                        hasher.update(text.as_bytes());
                    }
                    hasher.hex()
                });
                all.update(format!("{number:02x} {sha256}\n").as_bytes());
            }
            self.sha256 = Some(all.hex());
        }
        SectionDigest {
            sha256: self.sha256.clone().unwrap_or_default(),
            count: self.count,
        }
    }
}

/// The bucket of an id: the last byte of its FNV-1a hash.
fn bucket_of(id: &str) -> u8 {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.to_le_bytes()[0]
}

fn write_line(text: &mut String, kind: Kind, id: &str, (rev, sha): (u64, &str)) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{kind} {id} {rev} {sha}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(id: &str, rev: u64) -> DigestLine {
        DigestLine {
            kind: Kind::Sortie,
            id: id.to_owned(),
            rev,
            sha: "ab".to_owned(),
        }
    }

    #[test]
    fn a_section_hash_does_not_depend_on_the_order_values_came_in() {
        for digest in [Digest::Lines, Digest::Buckets] {
            let one = sections(vec![line("a", 1), line("b", 2)], digest);
            assert_eq!(one, sections(vec![line("b", 2), line("a", 1)], digest));
            assert_ne!(one, sections(vec![line("a", 1), line("b", 3)], digest));
            assert_ne!(one, sections(vec![line("a", 1), line("c", 2)], digest));
            assert_ne!(one, sections(vec![line("a", 1)], digest));
            assert_eq!(one["sorties"].count, 2);
        }
    }

    #[test]
    fn every_version_of_the_digest_is_what_it_was() {
        let lines = || {
            let mut lines = vec![line("srt-1", 7), line("srt-2", 9)];
            lines.push(DigestLine {
                kind: Kind::Subtask,
                id: "srt-1/1".to_owned(),
                rev: 8,
                sha: "cd".to_owned(),
            });
            lines
        };
        let sha = |digest| sections(lines(), digest)["sorties"].sha256.clone();
        let beginnings =
            [Digest::Lines, Digest::Buckets].map(|digest| sha(digest)[..16].to_owned());
        assert_eq!(beginnings, ["75dc236add8e5e28", "ffa88984fb47f89a"]);
    }

    proptest! {
        /// However values came, changed and went: the digest that was kept up to date equals the one computed anew.
        #[test]
        fn a_digest_that_follows_changes_is_the_one_computed_anew(
            acts in prop::collection::vec((0_u8..40, 0_u64..5, any::<bool>()), 0..200),
        ) {
            let (mut digest, mut values) = (KindDigest::default(), BTreeMap::<String, (u64, String)>::new());
            for (rev, (number, kind, asked)) in (1_u64..).zip(acts) {
                let id = format!("srt-{number}");
                match kind {
                    0 => {
                        values.remove(&id);
                        digest.touch(&id, Presence::Gone);
                    }
                    _ => {
                        values.insert(id.clone(), (rev, format!("{kind:x}")));
                        digest.touch(&id, Presence::There);
                    }
                }
                if !asked {
                    continue;
                }
                let kept = digest.finish(Kind::Sortie, |id| {
                    values.get(id).map(|(rev, sha)| (*rev, sha.as_str()))
                });
                let lines = values.iter().map(|(id, (rev, sha))| DigestLine {
                    kind: Kind::Sortie,
                    id: id.clone(),
                    rev: *rev,
                    sha: sha.clone(),
                });
                let anew = sections(lines.collect(), Digest::Buckets);
                prop_assert_eq!(sections_of_kinds([(Kind::Sortie, kept)]), anew);
            }
        }
    }
}
