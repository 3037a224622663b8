//! The seed's short checksums: 16 hexadecimal digits of SHA-256 over what `JSON.stringify` makes of a
//! section. Flightline's own checkpoints carry whole ones; these are for files that the seed reads.

use super::{Checkpoint, Checksums, write};
use crate::dialect::field::{Extra, Keep, Value};
use crate::dialect::json::Json;
use crate::event::sha256_hex;

/// A part of a checkpoint that has a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The section on the workflow.
    Workflow,
    /// The section on the agents.
    Agents,
    /// The section on the context.
    Context,
    /// The section on the files.
    FileSystem,
    /// The four above, by their checksums.
    Overall,
}

impl Section {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Workflow,
        Self::Agents,
        Self::Context,
        Self::FileSystem,
        Self::Overall,
    ];

    /// The checksum of this section.
    fn of(self, checksums: &Checksums) -> &str {
        match self {
            Self::Workflow => &checksums.workflow,
            Self::Agents => &checksums.agents,
            Self::Context => &checksums.context,
            Self::FileSystem => &checksums.file_system,
            Self::Overall => &checksums.overall,
        }
    }

    /// Its key in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Agents => "agents",
            Self::Context => "context",
            Self::FileSystem => "fileSystem",
            Self::Overall => "overall",
        }
    }
}

impl Checkpoint {
    /// The checksums of what is in the document now: of everything in it, or only of what the seed knows.
    #[must_use]
    pub fn checksums(&self, keep: Keep) -> Checksums {
        let mut checksums = Checksums {
            workflow: short(&self.workflow.write(keep)),
            agents: short(&self.agents.write(keep)),
            context: short(&self.context.write(keep)),
            file_system: short(&self.file_system.write(keep)),
            overall: String::new(),
            extra: Extra::default(),
        };
        checksums.overall = overall(&checksums);
        checksums
    }

    /// Which sections do not hash to what the document says; none when it is sound.
    ///
    /// The seed hashes sections when it writes them, with every field in them, and again after reading
    /// them, without the fields it does not know. Either is right.
    #[must_use]
    pub fn verify(&self) -> Vec<Section> {
        let said = &self.metadata.checksums;
        let (written, known) = (self.checksums(Keep::All), self.checksums(Keep::Known));
        let mut wrong = Section::ALL.to_vec();
        wrong.retain(|section| match section {
            Section::Overall => said.overall != overall(said),
            Section::Workflow | Section::Agents | Section::Context | Section::FileSystem => {
                let said = section.of(said);
                said != section.of(&written) && said != section.of(&known)
            }
        });
        wrong
    }

    /// Sets checksums and size to what the document holds: to be called when it is complete.
    pub fn seal(&mut self) {
        let sealed = self.checksums(Keep::Known);
        let said = &mut self.metadata.checksums;
        said.workflow = sealed.workflow;
        said.agents = sealed.agents;
        said.context = sealed.context;
        said.file_system = sealed.file_system;
        said.overall = sealed.overall;
        // The size is part of what it measures; from round to round it goes one way only, so this ends.
        loop {
            let size = (write(self).len() as u64).into();
            if self.metadata.checkpoint_size == size {
                return;
            }
            self.metadata.checkpoint_size = size;
        }
    }
}

/// Over the four others, with an empty `overall`, in the seed's order.
fn overall(checksums: &Checksums) -> String {
    let bare = Checksums {
        overall: String::new(),
        extra: Extra::default(),
        ..checksums.clone()
    };
    short(&bare.write(Keep::Known))
}

fn short(json: &Json) -> String {
    let mut hash = sha256_hex(&json.stringify());
    hash.truncate(16);
    hash
}
