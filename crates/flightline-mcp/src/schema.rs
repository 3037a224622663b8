//! JSON schemas in few tokens: what a model needs in order to call a tool, and nothing else. Rules that are left out are checked
//! all the same when the arguments are read.

use std::sync::LazyLock;

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// The schemas of the tools' arguments by the name of the tool, as a test made them.
static TOOLS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("tools.json")).unwrap_or_default());

pub(crate) fn input(tool: &str) -> JsonObject {
    let schema = TOOLS.get(tool).and_then(Value::as_object);
    schema.cloned().unwrap_or_default()
}

pub(crate) fn output(fields: &[(&str, &str)]) -> JsonObject {
    let property = |(name, kind): &(&str, &str)| ((*name).to_owned(), json!({ "type": kind }));
    let properties: Map<String, Value> = fields.iter().map(property).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema
}

#[cfg(test)]
pub(crate) use made::{Maker, input_of, of};

/// Makes the schemas that the program carries.
#[cfg(test)]
mod made {
    use schemars::generate::SchemaSettings;
    use schemars::{JsonSchema, Schema, SchemaGenerator};

    use super::*;

    pub(crate) type Maker = fn(&mut SchemaGenerator) -> Schema;

    /// The words of a schema that are left out: a model needs the names, types and descriptions of fields only.
    const SPARE: [&str; 10] = [
        "$schema",
        "title",
        "default",
        "format",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "additionalProperties",
    ];

    pub(crate) const fn of<T: JsonSchema>() -> Maker {
        T::json_schema
    }

    pub(crate) fn input_of(make: Maker) -> JsonObject {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = make(&mut settings.into_generator()).to_value();
        shorten(&mut schema);
        let mut schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        // The tool's own description says the same, and better.
        schema.remove("description");
        schema
    }

    fn shorten(schema: &mut Value) {
        let Value::Object(fields) = schema else {
            return;
        };
        fields.retain(|name, _| !SPARE.contains(&name.as_str()));
        // A field that is left out means the same as null.
        if let Some(Value::Array(kinds)) = fields.get_mut("type") {
            kinds.retain(|kind| kind != "null");
            if let [only] = kinds.as_slice() {
                let only = only.clone();
                fields.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(words)) = fields.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(Value::Array(either)) = fields.get_mut("anyOf") {
            either.retain(|schema| schema.get("type") != Some(&json!("null")));
            if let [Value::Object(only)] = either.as_slice() {
                let only = only.clone();
                fields.remove("anyOf");
                fields.extend(only);
                return shorten(schema);
            }
        }
        if let Some(Value::Object(properties)) = fields.get_mut("properties") {
            properties.values_mut().for_each(shorten);
        }
        if let Some(items) = fields.get_mut("items") {
            shorten(items);
        }
    }
}
