//! Imports and exports the files of other systems.
//!
//! Each dialect has a module for its own part: the things of the store that have a document, the content of a
//! document, and its meaning for the store. The part that all dialects share stands here: an imported document is
//! kept as an [`Original`], so that the fields that Flightline has no words for are exported again.

pub mod aside;
mod epic;
mod intake;
pub mod orchestrator;
mod recovery;
mod sitebuilder;

pub(crate) use intake::turn;

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::Checkpoint;
use flightline_core::dialect::{Dialect, DialectDocument, Json, Original, merge};
use flightline_core::mission::Mission;
use flightline_core::redact::shown;
use flightline_core::text::NoteText;
use flightline_core::{Code, Refusal, Subject, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Imports documents of another system, the oldest first. Each is imported by itself: one that is refused keeps no
/// other out, and carries its refusal.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ImportDocuments {
    /// The dialect of the documents.
    pub dialect: Dialect,
    /// The documents to import.
    pub documents: Vec<Incoming>,
    /// The mission that unknown tasks are added to; the current one when none is named.
    pub mission: Option<String>,
}

/// A document to import.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct Incoming {
    /// The name of the document's file.
    pub file: String,
    /// The text of the document.
    pub text: String,
    /// The text that its writer had before: only differences from it are news. Without it, the whole document is.
    pub before: Option<String>,
    /// True when a person decided that the document applies, even if the store has newer data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub even_if_older: bool,
}

/// The outcome of importing a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ImportedDocument {
    /// The name of the document's file.
    pub file: String,
    /// The subject of the document: the id of an agent, a sortie or a checkpoint.
    pub of: String,
    /// The document's name for people.
    pub name: String,
    /// True when the document changed something here.
    pub changed: bool,
    /// The changes that were made, in a few words each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Parts of the document that could not be imported as they stand, and are only kept.
    pub warnings: Vec<String>,
    /// The reason why the document was not imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
}

impl ImportedDocument {
    pub fn refused(file: &str, refusal: Refusal) -> Self {
        Self {
            file: file.to_owned(),
            of: String::new(),
            name: String::new(),
            changed: false,
            changes: Vec::new(),
            warnings: Vec::new(),
            refused: Some(refusal),
        }
    }

    /// The document says that there is nothing.
    fn nothing(incoming: &Incoming) -> Self {
        Self::known(incoming, String::new(), "no checkpoint".to_owned())
    }

    /// The document says nothing that is not known.
    fn known(incoming: &Incoming, of: String, name: String) -> Self {
        Self {
            file: incoming.file.clone(),
            of,
            name,
            changed: false,
            changes: Vec::new(),
            warnings: Vec::new(),
            refused: None,
        }
    }
}

/// Exports documents in the format of another system.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ExportDocuments {
    /// The dialect of the documents.
    pub dialect: Dialect,
    /// Export only documents of this mission.
    pub mission: Option<String>,
    /// Export only documents of things that may have changed since this revision.
    pub since: Option<u64>,
    /// Export the files of things that have ended since this revision.
    #[serde(default)]
    pub ended_since: Option<u64>,
}

/// Exported documents in the format of another system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ExportedDocuments {
    /// The revision at which the documents were made.
    pub rev: u64,
    /// The id of the journal from which the documents come.
    pub history: String,
    /// The documents, each with its file.
    pub documents: Vec<Outgoing>,
    /// Files of things that have ended: they go into the archive.
    #[serde(default)]
    pub ended: Vec<EndedFile>,
    /// Files that have no document any more: only where changes were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Checkpoints that could not be exported because they are damaged.
    pub lost: Vec<Lost>,
}

/// A document to write to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Outgoing {
    /// The name of the document's file.
    pub file: String,
    /// The subject of the document: the id of an agent, a sortie or a checkpoint.
    pub of: String,
    /// The text of the document.
    pub text: String,
    /// A file that this one replaces, once this one is written.
    pub replaces: Option<String>,
}

/// A file of a thing that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct EndedFile {
    /// The name of the file.
    pub file: String,
    /// The name of the file in the archive.
    pub archive: String,
}

/// A checkpoint that could not be exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Lost {
    /// The checkpoint's short id.
    pub file: String,
    /// The reasons why it could not be exported.
    pub what: Vec<String>,
}

/// A document in the format of another system, as the store makes it, before it is written out.
struct Draft {
    of: String,
    file: String,
    document: DialectDocument,
    replaces: Option<String>,
}

/// The outcome of storing a document.
struct Stored {
    of: String,
    name: String,
    warnings: Vec<String>,
}

impl Operation for ExportDocuments {
    const NAME: &'static str = "export_documents";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = ExportedDocuments;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ExportedDocuments> {
        if self.dialect == Dialect::Orchestrator {
            return orchestrator::files::give_out(ctx, self);
        }
        let mut documents = Vec::new();
        for thing in things(ctx, self)? {
            documents.push(Outgoing {
                text: outgoing(ctx, &thing)?,
                file: thing.file,
                of: thing.of,
                replaces: thing.replaces,
            });
        }
        Ok(ExportedDocuments {
            rev: ctx.tx.rev(),
            history: ctx.tx.history().to_owned(),
            documents,
            ended: match self.dialect {
                Dialect::Epic => epic::ended(ctx, self.ended_since)?,
                _ => Vec::new(),
            },
            gone: Vec::new(),
            lost: Vec::new(),
        })
    }
}

fn things(ctx: &mut OpContext<'_, '_>, wanted: &ExportDocuments) -> Result<Vec<Draft>> {
    match wanted.dialect {
        Dialect::Epic => epic::things(ctx),
        Dialect::Sitebuilder => sitebuilder::things(ctx, wanted),
        Dialect::Recovery => recovery::things(ctx, wanted),
        Dialect::Orchestrator => Ok(Vec::new()),
    }
}

/// A checkpoint that came in as seed E's file, as it was written there.
pub(crate) fn as_written(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
) -> Result<Option<DialectDocument>> {
    let id = Original::id(Dialect::Recovery, &checkpoint.key());
    let original = ctx.tx.get::<Original>(&id)?;
    // An original that cannot be read says nothing.
    Ok(original.and_then(|it| DialectDocument::read(Dialect::Recovery, &it.text).ok()))
}

/// The thing a document is about, when the store knows it.
fn find(ctx: &mut OpContext<'_, '_>, document: &DialectDocument) -> Result<Option<Draft>> {
    match document.dialect() {
        Dialect::Epic => epic::find(ctx, document),
        Dialect::Sitebuilder => sitebuilder::find(ctx, document),
        // The file describes a moment of the past: only an edit of it is news.
        Dialect::Recovery | Dialect::Orchestrator => Ok(None),
    }
}

fn read(dialect: Dialect, text: &str, file: &str) -> std::result::Result<DialectDocument, Refusal> {
    DialectDocument::read(dialect, text).map_err(|why| why.refusal(file))
}

/// Refuses an agent that gives in a document about another's work, unless it is in charge.
fn refuse_others(ctx: &OpContext<'_, '_>, owner: &Agent) -> Result<()> {
    if ctx.is_in_charge() || ctx.agent_id() == Some(owner.id) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::NotYours,
        format!("only {} or dispatch may import its files", owner.name),
    )
    .into())
}

/// Refuses a document of an agent whose work has ended.
fn refuse_retired(owner: &Agent) -> Result<()> {
    if owner.retired_at.is_none() {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Fenced,
        format!("{} was retired, and its file is not taken in", owner.name),
    )
    .hint(format!(
        "bring it back with `fleet agents register {}`",
        owner.name
    ))
    .into())
}

fn thing(ctx: &mut OpContext<'_, '_>, dialect: Dialect, of: &str) -> Result<Option<Draft>> {
    match dialect {
        Dialect::Epic => epic::thing(ctx, of),
        Dialect::Sitebuilder => sitebuilder::thing(ctx, of),
        Dialect::Recovery => recovery::thing(ctx, of),
        Dialect::Orchestrator => Ok(None),
    }
}

/// Returns the document's text to export: the text that was imported, with the changes made here since.
fn outgoing(ctx: &mut OpContext<'_, '_>, thing: &Draft) -> Result<String> {
    let dialect = thing.document.dialect();
    let fresh = thing.document.write();
    let Some(original) = ctx.tx.get::<Original>(&Original::id(dialect, &thing.of))? else {
        return Ok(fresh);
    };
    // An original that cannot be read says nothing.
    let (Ok(ours), Ok(text)) = (Json::parse(&original.ours), Json::parse(&original.text)) else {
        return Ok(fresh);
    };
    let merged = merge(&ours, &thing.document, &text);
    // An unreadable document would be refused by every reader: then ours alone goes out.
    Ok(DialectDocument::read(dialect, &merged.pretty(&[]))
        .map_or(fresh, |document| document.write()))
}

/// The mission that is named, else all that are open.
fn missions(ctx: &mut OpContext<'_, '_>, named: Option<&str>) -> Result<Vec<Mission>> {
    if let Some(named) = named {
        return Ok(vec![ctx.mission(Some(named))?]);
    }
    let mut all = ctx.tx.find::<Mission>(Find::All)?;
    all.retain(|mission| mission.status.is_open());
    Ok(all)
}

fn filled<'a>(json: &'a Json, key: &str) -> Option<&'a str> {
    json.text(key).filter(|text| !text.trim().is_empty())
}

fn title(json: &Json, key: &str) -> Result<Option<Title>> {
    let text = filled(json, key);
    Ok(text.map(|text| Title::parse(key, text)).transpose()?)
}

fn note(json: &Json, key: &str) -> Result<Option<NoteText>> {
    let text = filled(json, key);
    Ok(text.map(|text| NoteText::parse(key, text)).transpose()?)
}

fn parsed(text: &str) -> Result<Json> {
    Ok(Json::parse(text).map_err(|why| why.refusal("document"))?)
}

fn named(mut refusal: Refusal, file: &str) -> Refusal {
    let file = shown(file);
    if !refusal.message.contains(&file) {
        refusal.message = format!("`{file}`: {}", refusal.message);
    }
    refusal
}
