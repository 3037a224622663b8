//! A JSON file under edit.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use crate::setup::SetupError;
use crate::setup::setup_error::position;

const BOM: char = '\u{feff}';

/// A JSON file under edit.
pub(super) struct JsonEditor {
    pub object: CstObject,
    root: CstRootNode,
    bom: bool,
    source: String,
}

impl JsonEditor {
    /// Reads a text. Nothing but white space is an empty object.
    pub fn open(text: &str) -> Result<Self, SetupError> {
        let bare = text.strip_prefix(BOM).unwrap_or(text);
        let source = if bare.trim().is_empty() { "" } else { bare };
        let root =
            CstRootNode::parse(source, &options()).map_err(|error| SetupError::Malformed {
                line: error.line_display(),
                column: error.column_display(),
                reason: lowered(&error.kind().to_string()),
            })?;
        let object = match root.value() {
            None => Some(root.object_value_or_set()),
            Some(_) => root.object_value(),
        };
        let Some(object) = object else {
            let at = source.len() - source.trim_start().len();
            let (line, column) = position(source, at);
            return Err(SetupError::Malformed {
                line,
                column,
                reason: "an object is expected".to_owned(),
            });
        };
        Ok(Self {
            object,
            root,
            bom: bare.len() != text.len(),
            source: source.to_owned(),
        })
    }

    pub fn text(&self) -> String {
        let text = self.root.to_string();
        if self.bom {
            format!("{BOM}{text}")
        } else {
            text
        }
    }

    pub fn value(&self) -> Option<Value> {
        self.root.to_serde_value()
    }

    /// Returns true when the sheet has neither a key nor a comment.
    pub fn is_bare(&self) -> bool {
        self.object.properties().is_empty()
            && !has_comment(&self.object.children())
            && !has_comment(&self.root.children())
    }

    /// Returns the position of a key's value. Only two levels are ours to name: a key at the top, and a key within one.
    fn position_of(&self, key: &str, last: bool) -> (usize, usize) {
        let parsed = parse_to_ast(&self.source, &CollectOptions::default(), &options());
        let value = parsed.ok().and_then(|it| it.value);
        let at = value.and_then(|value| find(&value, key, last));
        position(&self.source, at.unwrap_or_default())
    }
}

/// Comments and trailing commas are let pass, and nothing else that is not JSON.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The place of a key: the shallowest one, and of several the first or the last.
fn find(value: &ast::Value<'_>, key: &str, last: bool) -> Option<usize> {
    let object = value.as_object()?;
    let mut here = object
        .properties
        .iter()
        .filter(|prop| prop.name.as_str() == key);
    let prop = if last { here.next_back() } else { here.next() };
    if let Some(prop) = prop {
        return Some(if last {
            prop.range().start
        } else {
            prop.value.range().start
        });
    }
    object
        .properties
        .iter()
        .find_map(|prop| find(&prop.value, key, last))
}

fn lowered(reason: &str) -> String {
    let mut letters = reason.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// A key of an object, which must not be there twice.
pub(super) fn single(
    sheet: &JsonEditor,
    object: &CstObject,
    key: &str,
) -> Result<Option<CstObjectProp>, SetupError> {
    let mut all = object.properties();
    all.retain(|prop| prop.decoded_name().as_deref() == Some(key));
    if all.len() > 1 {
        let (line, column) = sheet.position_of(key, true);
        return Err(SetupError::Twice {
            line,
            column,
            key: key.to_owned(),
        });
    }
    Ok(all.pop())
}

/// The object under a key, which is made when there is none.
pub(super) fn object_in(
    sheet: &JsonEditor,
    object: &CstObject,
    key: &str,
) -> Result<CstObject, SetupError> {
    let prop = single(sheet, object, key)?
        .unwrap_or_else(|| object.append(key, CstInputValue::Object(Vec::new())));
    prop.object_value()
        .ok_or_else(|| misshapen(sheet, key, "an object"))
}

/// The array under a key, which is made when there is none.
pub(super) fn array_in(
    sheet: &JsonEditor,
    object: &CstObject,
    key: &str,
) -> Result<CstArray, SetupError> {
    let prop = single(sheet, object, key)?
        .unwrap_or_else(|| object.append(key, CstInputValue::Array(Vec::new())));
    prop.array_value()
        .ok_or_else(|| misshapen(sheet, key, "an array"))
}

fn misshapen(sheet: &JsonEditor, key: &str, expected: &'static str) -> SetupError {
    let (line, column) = sheet.position_of(key, false);
    SetupError::Shape {
        line,
        column,
        key: key.to_owned(),
        expected,
    }
}

/// Removes a key whose value became empty, unless a comment is left in it.
pub(super) fn drop_prop(prop: CstObjectProp) {
    let comment = prop.value().is_some_and(|it| has_comment(&it.children()));
    if !comment {
        prop.remove();
    }
}

fn has_comment(nodes: &[CstNode]) -> bool {
    nodes.iter().any(CstNode::is_comment)
}

pub(super) fn same(node: &CstNode, want: &CstInputValue) -> bool {
    node.to_serde_value() == Some(plain(want))
}

fn plain(value: &CstInputValue) -> Value {
    match value {
        CstInputValue::Null => Value::Null,
        CstInputValue::Bool(it) => Value::Bool(*it),
        CstInputValue::Number(it) => serde_json::from_str(it).unwrap_or_default(),
        CstInputValue::String(it) => Value::String(it.clone()),
        CstInputValue::Array(all) => Value::Array(all.iter().map(plain).collect()),
        CstInputValue::Object(all) => Value::Object(
            all.iter()
                .map(|(key, value)| (key.clone(), plain(value)))
                .collect(),
        ),
    }
}

pub(super) type KeyValues = Vec<(String, CstInputValue)>;

/// Sets these keys of an object. The others stay, and so does a choice of the person: `enabled` and `tools`.
pub(super) fn merge(object: &CstObject, want: &KeyValues) {
    for (key, value) in want {
        let prop = object.get(key);
        let inner = prop.as_ref().and_then(CstObjectProp::object_value);
        match (prop, value, inner) {
            (None, value, _) => {
                object.append(key, value.clone());
            }
            (Some(_), CstInputValue::Object(want), Some(inner)) => merge(&inner, want),
            (Some(_), _, _) if key == "enabled" || key == "tools" => {}
            (Some(prop), value, _) => set(&prop, value),
        }
    }
}

/// Sets these keys of an object, and takes all others away.
pub(super) fn replace(object: &CstObject, want: &KeyValues) {
    for prop in object.properties() {
        let name = prop.decoded_name();
        if !want.iter().any(|(key, _)| name.as_ref() == Some(key)) {
            prop.remove();
        }
    }
    for (key, value) in want {
        match object.get(key) {
            None => {
                object.append(key, value.clone());
            }
            Some(prop) => set(&prop, value),
        }
    }
}

fn set(prop: &CstObjectProp, want: &CstInputValue) {
    if !prop.value().is_some_and(|value| same(&value, want)) {
        prop.set_value(want.clone());
    }
}
