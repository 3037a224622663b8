//! The mirror of an orchestrator's files.

use std::fs;
use std::path::PathBuf;

use flightline::core::dialect::compress::Compression;
use flightline::core::dialect::orchestrator::{index_entry, read_index, write_index};
use flightline::core::dialect::{Dialect, DialectDocument, Json};
use flightline::core::retention::Retention;
use flightline::mirror::{MirrorNotice, Mirrors};
use flightline_testkit::prelude::*;

use crate::mirrors::pass;

use super::{
    ERROR, FIRST, INDEX, RUNNING, SECOND, plain, sound, status_of, take, with_lesson, working,
};

const RUNNING_GZ: &[u8] = include_bytes!(
    "../../../../flightline-core/tests/it/dialects/data/orchestrator_running.json.gz"
);

/// The mirror, in the world's own folder.
struct Mirror<'s, 'w> {
    story: &'s Story<'w>,
    mirrors: Mirrors,
}

impl<'s, 'w> Mirror<'s, 'w> {
    fn new(story: &'s Story<'w>) -> Self {
        let root = story.world.folder().join("work");
        fs::create_dir_all(&root).unwrap();
        Self {
            story,
            mirrors: Mirrors {
                state: root.join(".flightline"),
                root,
                inside: PathBuf::new(),
                dialects: vec![Dialect::Orchestrator],
            },
        }
    }

    fn pass(&self) -> Vec<MirrorNotice> {
        pass(self.story, &self.mirrors)
    }

    /// What is said at once of what is whole, and after a while of what somebody could still be writing.
    fn settled(&self) -> Vec<MirrorNotice> {
        let said = self.pass();
        if !said.is_empty() {
            return said;
        }
        self.story.pass_minutes(1);
        self.pass()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.mirrors
            .root
            .join(".flightline/orchestrator")
            .join(file)
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), bytes).unwrap();
    }

    /// A checkpoint's document, whole and sound.
    fn document(&self, file: &str) -> DialectDocument {
        let bytes = fs::read(self.path(file)).unwrap();
        let compression = Compression::named(file);
        assert_eq!(Compression::detect(&bytes), compression, "{file}");
        let text = compression.unpack(&bytes, 1 << 20).unwrap();
        let document = sound(std::str::from_utf8(&text).unwrap());
        assert!(file.contains(document.word("id")));
        document
    }

    fn index(&self) -> Vec<Json> {
        read_index(&fs::read_to_string(self.path("index.json")).unwrap()).unwrap()
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let entries = entries.map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<String> = files
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The files are those that the index lists, each as it says.
    fn check(&self) -> usize {
        let entries = self.index();
        let mut listed: Vec<String> = entries
            .iter()
            .map(|entry| {
                let path = PathBuf::from(entry.word("path"));
                let file = path.file_name().unwrap().to_str().unwrap().to_owned();
                assert_eq!(path, self.path(&file));
                let document = self.document(&file);
                let size = fs::metadata(&path).unwrap().len();
                let told = index_entry(&document, size, entry.word("path"));
                assert_eq!(
                    write_index(&[told]),
                    write_index(std::slice::from_ref(entry))
                );
                file
            })
            .collect();
        listed.push("index.json".to_owned());
        listed.sort();
        assert_eq!(listed, self.files(""));
        entries.len()
    }
}

both_engines! {
    fn the_mirror_follows_checkpoints_and_its_index_is_true(world: &World) {
        for compression in Compression::ALL {
            let world = World::new(world.engine);
            let story = working(&world, Policy { mirror_compression: compression, ..Preset::Orchestrator.policy() });
            let mirror = Mirror::new(&story);
            assert_eq!(mirror.pass(), []);
            assert!(mirror.files("").is_empty(), "no checkpoint, no index");
            let ids: Vec<String> = (0..3).map(|number| take(&story, &format!("lesson {number}"))).collect();
            assert_eq!(mirror.pass(), []);
            assert_eq!(mirror.check(), 3);
            for id in &ids {
                let file = format!("{id}.json{}", compression.suffix());
                assert_eq!(mirror.document(&file)["metadata"].word("compressionType"), compression.as_str());
            }
            assert_eq!(mirror.index().iter().map(|it| it.word("id").to_owned()).collect::<Vec<_>>(), ids);
            let (rev, before) = (story.rev(), fs::metadata(mirror.path("index.json")).unwrap().modified().unwrap());
            assert_eq!(mirror.pass(), []);
            assert_eq!(story.rev(), rev, "our own files are nobody's news");
            assert_eq!(fs::metadata(mirror.path("index.json")).unwrap().modified().unwrap(), before);
            // What somebody took away comes back.
            fs::remove_file(mirror.path("index.json")).unwrap();
            fs::remove_file(mirror.path(&format!("{}.json{}", ids[1], compression.suffix()))).unwrap();
            mirror.pass();
            assert_eq!(mirror.check(), 3);
            // Another compression is for new ones; what is looked at again follows.
            story.mark("", format!("chk-{}", ids[0]), CheckpointMark::Archive).unwrap();
            mirror.pass();
            assert_eq!((mirror.check(), mirror.files("archive").len()), (2, 1));
        }
    }

    fn what_retention_archives_or_deletes_leaves_the_mirror(world: &World) {
        let story = working(world, Policy { retention: Retention { most: 4, ..plain().retention }, ..plain() });
        let mirror = Mirror::new(&story);
        let mut ids = Vec::new();
        for number in 0..7 {
            ids.push(take(&story, &format!("lesson {number}")));
            assert_eq!(mirror.pass(), []);
            assert_eq!(mirror.check(), ids.len().min(4), "the maximum is honest at any time");
        }
        let archived = mirror.files("archive");
        let mut expected: Vec<String> = ids[..3].iter().map(|id| format!("{id}.json")).collect();
        expected.sort();
        assert_eq!(archived, expected);
        let document = mirror.document(&format!("archive/{}.json", ids[0]));
        assert_eq!(document.word("status"), "archived");
        story.mark("", format!("chk-{}", ids[0]), CheckpointMark::Delete).unwrap();
        story.mark("", format!("chk-{}", ids[6]), CheckpointMark::Delete).unwrap();
        assert_eq!(mirror.pass(), []);
        assert_eq!((mirror.check(), mirror.files("archive").len()), (3, 2));
    }

    fn what_an_orchestrator_writes_itself_is_taken_in(world: &World) {
        let story = working(world, plain());
        let mirror = Mirror::new(&story);
        let ours = take(&story, "ours");
        mirror.pass();
        mirror.write(&format!("{FIRST}.json.gz"), RUNNING_GZ);
        mirror.write(&format!("{SECOND}.json"), ERROR);
        // It keeps an index of its own, which knows nothing of ours.
        mirror.write("index.json", INDEX);
        let done = |file: &str, what: &str| MirrorNotice::Done(format!("took in .flightline/orchestrator/{file} (chk-6f9f6b52 ({what}"));
        assert_eq!(mirror.pass(), [
            done(&format!("{FIRST}.json.gz"), "IMPLEMENTING)): state is \"IMPLEMENTING\", agents: 1 completed, 1 pending, 1 running"),
            done(&format!("{SECOND}.json"), "ERROR)): state is \"ERROR\", agents: 1 failed"),
        ]);
        assert_eq!(mirror.check(), 3);
        assert_eq!(fs::read_to_string(mirror.path(&format!("{SECOND}.json"))).unwrap(), ERROR, "as it was");
        assert_eq!(mirror.document(&format!("{FIRST}.json.gz")).write(), RUNNING.trim_end());
        assert!(mirror.index().iter().any(|it| it.word("id") == ours));
        assert_eq!(mirror.pass(), []);
        // It archives one, as the seed does: in its place.
        mirror.write(&format!("{SECOND}.json"), ERROR.replace("\"valid\"", "\"archived\""));
        assert_eq!(mirror.pass(), [done(&format!("{SECOND}.json"), "ERROR))")]);
        assert_eq!(status_of(&story, SECOND), Some(CheckpointStatus::Archived));
        assert_eq!((mirror.check(), mirror.files("archive")), (2, vec![format!("{SECOND}.json")]));
    }

    fn bad_files_are_kept_beside_and_ours_written_anew(world: &World) {
        let story = working(world, plain());
        let mirror = Mirror::new(&story);
        let id = take(&story, "ours");
        mirror.pass();
        let file = format!("{id}.json");
        let good = fs::read_to_string(mirror.path(&file)).unwrap();
        let bomb = Compression::Gzip.pack(&vec![b' '; 9 << 20]).unwrap();
        let changed = with_lesson(&good, "Not ours");
        let bad = [
            (b"{".to_vec(), "cannot read"),
            (good.replace("\"manual\"", "\"other\"").into_bytes(), "cannot read"),
            (RUNNING_GZ[..RUNNING_GZ.len() / 2].to_vec(), "its gzip data is damaged"),
            (bomb, "it unfolds into more than"),
            (changed.into_bytes(), "is here already, and says something else in `context`"),
        ];
        for (number, (bytes, why)) in bad.into_iter().enumerate() {
            mirror.write(&file, bytes);
            let said = mirror.settled();
            assert!(matches!(said.as_slice(), [MirrorNotice::Trouble(said)] if said.contains(why) && said.contains(".conflict")), "{said:?}");
            assert_eq!(fs::read_to_string(mirror.path(&file)).unwrap(), good);
            let conflicts = mirror.files("").into_iter().filter(|file| file.contains(".conflict"));
            assert_eq!(conflicts.count(), number + 1, "none is lost");
        }
        mirror.write("index.json", "no index");
        assert_eq!(mirror.settled(), [MirrorNotice::Trouble(".flightline/orchestrator/index.json is no index; it is kept as .flightline/orchestrator/index.json.conflict".to_owned())]);
        let lists = INDEX.replace(SECOND, &id);
        mirror.write("index.json", lists);
        assert_eq!(mirror.pass(), [MirrorNotice::Trouble(format!(".flightline/orchestrator/index.json lists {FIRST}, which is not there"))]);
        assert_eq!(mirror.index().len(), 1, "and is true again");
        assert_eq!(mirror.pass(), []);
    }

    fn a_link_in_a_files_place_is_left_alone(world: &World) {
        let story = working(world, plain());
        let mirror = Mirror::new(&story);
        let id = take(&story, "ours");
        mirror.pass();
        let path = mirror.path(&format!("{id}.json"));
        fs::remove_file(&path).unwrap();
        let elsewhere = world.folder().join("elsewhere.json");
        fs::write(&elsewhere, RUNNING).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let said = mirror.pass();
        assert!(!said.is_empty() && said.iter().all(|it| matches!(it, MirrorNotice::Trouble(said) if said.contains("is a link, and no link is followed"))), "{said:?}");
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), RUNNING);
    }
}
