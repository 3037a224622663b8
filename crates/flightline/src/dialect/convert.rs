//! A file of one system written as one of another. Nothing of it touches the store.

use flightline_core::checkpoint::Reason;
use flightline_core::dialect::orchestrator::Id;
use flightline_core::dialect::{Dialect, Document, Fact, Given, Record, Standing};
use flightline_core::redact::shown;
use flightline_core::{Refusal, Time};
use serde::{Deserialize, Serialize};

use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};

/// Writes a document of one dialect in another.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvertDocument {
    /// The format of the document; detected when not given.
    pub from: Option<Dialect>,
    /// The format to convert to.
    pub to: Dialect,
    /// The name of its file.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// A document in another dialect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConvertedDocument {
    /// The format of the original.
    pub from: Dialect,
    /// Its text now.
    pub text: String,
    /// What the other dialect cannot say.
    pub lost: Vec<String>,
    /// What the other dialect must say and the document did not, so that something had to be put there.
    pub added: Vec<String>,
}

impl Operation for ConvertDocument {
    const NAME: &'static str = "convert_document";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = ConvertedDocument;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Fleet
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<ConvertedDocument> {
        let document = self.read()?;
        let given = Given {
            id: Id::parse(&desk.tx.uuid().to_string())
                .ok_or_else(|| Refusal::invalid("an id was drawn that is no UUID"))?,
            project: desk.tx.project_name().to_owned(),
        };
        let (agent, now) = (desk.actor(), desk.now());
        let mut added = Vec::new();
        let converted = document.convert(self.to, &given, |record| {
            added = fill(record, self.to, &agent, now);
        })?;
        Ok(ConvertedDocument {
            from: document.dialect(),
            text: converted.document.write(),
            lost: converted.lost,
            added,
        })
    }
}

impl ConvertDocument {
    fn read(&self) -> Result<Document> {
        let read = |dialect| Document::read(dialect, &self.text);
        if let Some(dialect) = self.from {
            return Ok(read(dialect).map_err(|why| why.refusal(&self.file))?);
        }
        let mut fit: Vec<Document> = Vec::new();
        for dialect in Dialect::ALL {
            fit.extend(read(dialect).ok());
        }
        match <[Document; 1]>::try_from(fit) {
            Ok([document]) => Ok(document),
            Err(fit) if fit.is_empty() => Err(Refusal::invalid(format!(
                "`{}` is not a document of a known system",
                shown(&self.file)
            ))
            .hint("name its format to see the error: `--dialect NAME`")
            .into()),
            Err(fit) => {
                let names = fit.iter().map(|document| document.dialect().as_str());
                let names: Vec<&str> = names.collect();
                Err(Refusal::invalid(format!(
                    "`{}` can be read as {}",
                    shown(&self.file),
                    names.join(" or ")
                ))
                .hint("name its format: `--dialect NAME`")
                .into())
            }
        }
    }
}

/// Puts something where a dialect must say what the document does not.
fn fill(record: &mut Record, to: Dialect, agent: &str, now: Time) -> Vec<String> {
    let mut added = Vec::new();
    // Whether an agent is needed decides what else is, so that comes first.
    loop {
        let Some(fact) = record.missing_for(to).first().copied() else {
            return added;
        };
        let put = match fact {
            Fact::Task => record.task.insert("task".to_owned()).clone(),
            Fact::Objective => {
                let objective = record.task.clone().unwrap_or_else(|| "unknown".to_owned());
                record.objective.insert(objective).clone()
            }
            Fact::Agent => record.agent.insert(agent.replace(':', "-")).clone(),
            Fact::Session => record.session.insert("unknown".to_owned()).clone(),
            Fact::Stage => record.stage.insert("unknown".to_owned()).clone(),
            Fact::Standing => record
                .standing
                .insert(Standing::InProgress)
                .as_str()
                .to_owned(),
            Fact::At => record.at.insert(now).to_string(),
            Fact::Resumable => record.resumable.insert(true).to_string(),
            Fact::Reason => record.reason.insert(Reason::Manual).as_str().to_owned(),
            // No dialect needs any of these; if one did, its absence would be refused by name.
            Fact::StartedAt
            | Fact::CompletedAt
            | Fact::FilesCreated
            | Fact::FilesModified
            | Fact::Blockers
            | Fact::Instructions
            | Fact::Done
            | Fact::Current
            | Fact::Next => return added,
        };
        added.push(format!("{fact}: `{put}`"));
    }
}
