//! The resources: data that can be read by its address, without a tool.

use flightline::checkpoint::inspect::ShowCheckpoint;
use flightline::context::past::BriefCheckpoint;
use flightline::context::peek::PeekBriefing;
use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use flightline::mail::PeekInbox;
use flightline::mission::ShowMission;
use flightline::registry::value_of;
use flightline::status::ShowStatus;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::mirror::at;
use crate::room::without_nulls;
use crate::runner::{Call, OperationRunner};

const JSON: &str = "application/json";
const TEXT: &str = "text/markdown";

/// A resource, or all resources whose addresses have one form.
struct Row {
    /// The address. The operation is asked with the value that stands in the place of `{id}`.
    address: &'static str,
    name: &'static str,
    about: &'static str,
    written: &'static str,
    call: fn(&str) -> Call,
}

const ROWS: &[Row] = &[
    Row {
        address: "fleet://status",
        name: "status",
        about: "The fleet at a glance",
        written: JSON,
        call: |_| Call::of::<ShowStatus>(json!({})),
    },
    Row {
        address: "fleet://missions/{id}",
        name: "mission",
        about: "A mission and its sorties",
        written: JSON,
        call: |id| Call::of::<ShowMission>(json!({ "mission": id })),
    },
    Row {
        address: "fleet://checkpoints/{id}",
        name: "checkpoint",
        about: "A checkpoint in full; @latest for the newest",
        written: JSON,
        call: |id| Call::of::<ShowCheckpoint>(json!({ "checkpoint": id })),
    },
    Row {
        address: "fleet://checkpoints/{id}/briefing",
        name: "checkpoint-briefing",
        about: "The recovery context of a checkpoint as text",
        written: TEXT,
        call: |id| Call::of::<BriefCheckpoint>(json!({ "checkpoint": id })),
    },
    Row {
        address: "fleet://agents/{id}/recovery",
        name: "agent-recovery",
        about: "An agent's briefing, to look at: nothing is recorded",
        written: TEXT,
        call: |id| Call::of::<PeekBriefing>(json!({ "agent": id, "mission": null })),
    },
    Row {
        address: "fleet://agents/{id}/inbox",
        name: "agent-inbox",
        about: "An agent's mail, without reading it for the agent",
        written: JSON,
        call: |id| Call::of::<PeekInbox>(json!({ "agent": id, "limit": 50 })),
    },
];

/// The placeholder of an id in an address.
const ID: &str = "{id}";

impl Row {
    fn is_template(&self) -> bool {
        self.address.contains(ID)
    }

    fn id_in(&self, address: &str) -> Option<String> {
        let Some((before, after)) = self.address.split_once(ID) else {
            return (address == self.address).then(String::new);
        };
        let id = address.strip_prefix(before)?.strip_suffix(after)?;
        let id = decoded(id)?;
        (!id.is_empty() && !id.contains('/')).then_some(id)
    }
}

pub(crate) fn listed() -> Vec<Resource> {
    let single = ROWS.iter().filter(|row| !row.is_template());
    single
        .map(|row| {
            Resource::new(row.address, row.name)
                .with_description(row.about)
                .with_mime_type(row.written)
        })
        .collect()
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let many = ROWS.iter().filter(|row| row.is_template());
    many.map(|row| {
        ResourceTemplate::new(row.address, row.name)
            .with_description(row.about)
            .with_mime_type(row.written)
    })
    .collect()
}

pub(crate) async fn read(
    runner: &dyn OperationRunner,
    address: &str,
) -> Result<ResourceContents, Refusal> {
    let found = ROWS.iter().find_map(|row| Some((row, row.id_in(address)?)));
    let Some((row, id)) = found else {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no resource `{}`", shown(address)),
        )
        .hint("list them with `resources/list` and `resources/templates/list`"));
    };
    let outcome = runner.call((row.call)(&id)).await.outcome?.now()?;
    let mut outcome = value_of(&outcome)?;
    let text = match row.written {
        TEXT => at(&outcome, "/text"),
        _ => {
            without_nulls(&mut outcome);
            outcome.to_string()
        }
    };
    Ok(ResourceContents::text(text, address).with_mime_type(row.written))
}

pub(crate) fn calls() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| (row.call)("x").operation)
}

/// Decodes a part of an address: `%40` is `@`.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_means_one_resource() {
        let meant = |address: &str| {
            let mut found = ROWS
                .iter()
                .filter_map(|row| Some((row.name, row.id_in(address)?)));
            let one = found.next();
            assert!(found.next().is_none(), "{address}");
            one
        };
        let is = |name: &'static str, id: &str| Some((name, id.to_owned()));
        assert_eq!(meant("fleet://status"), is("status", ""));
        assert_eq!(
            meant("fleet://missions/msn-1a2b"),
            is("mission", "msn-1a2b")
        );
        assert_eq!(
            meant("fleet://checkpoints/@latest"),
            is("checkpoint", "@latest")
        );
        assert_eq!(
            meant("fleet://checkpoints/%40latest/briefing"),
            is("checkpoint-briefing", "@latest")
        );
        assert_eq!(meant("fleet://agents/ada/inbox"), is("agent-inbox", "ada"));
        for none in [
            "fleet://missions/",
            "fleet://missions/a/b",
            "fleet://missions/%2",
            "file:///etc/passwd",
        ] {
            assert_eq!(meant(none), None, "{none}");
        }
    }
}
