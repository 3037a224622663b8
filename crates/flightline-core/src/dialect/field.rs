//! From JSON to a dialect's types and back, so that nothing is dropped on the way.
//!
//! A type of a dialect is declared with `document!`: its fields under the seed's own keys, in the
//! seed's order. What a file holds beyond those is kept in [`Extra`], and so is the order of its keys. We
//! do this by hand and not with `#[serde(flatten)]`, whose messages do not say where something is wrong
//! (STYLE.md, rule 12) and which knows nothing of order.

mod plain;

use std::collections::BTreeMap;

use super::json::{Json, same_fields};
use super::unreadable::{Fault, Path, Unreadable};

pub(crate) use self::plain::one_line;
pub(super) use self::plain::stamped;
pub use self::plain::{Named, Stamp};

/// Which fields of a document are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything, in the order it was read.
    All,
    /// Only the fields the seed knows, in the seed's order.
    Known,
}

/// A type that stands in a file as a JSON value.
pub trait Value: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// When the value is of another type or shape; the error says where.
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable>;

    /// Writes the value as JSON.
    fn write(&self, keep: Keep) -> Json;
}

/// A type that stands in a file as a field of an object, or does not.
pub trait Field: Sized {
    /// Reads it; `found` is what stands under `key`.
    ///
    /// # Errors
    /// When it must be there and is not, or is of another type.
    fn take(found: Option<Json>, key: &'static str, at: &Path<'_>) -> Result<Self, Unreadable>;

    /// Writes it; none when the key is not written.
    fn put(&self, keep: Keep) -> Option<Json>;
}

/// A plain value must be there.
impl<T: Value> Field for T {
    fn take(found: Option<Json>, key: &'static str, at: &Path<'_>) -> Result<Self, Unreadable> {
        match found {
            Some(json) => T::read(json, &at.key(key)),
            None => Err(at.wrong(Fault::Missing { key })),
        }
    }

    fn put(&self, keep: Keep) -> Option<Json> {
        Some(self.write(keep))
    }
}

/// An `Option` may be left out, but is never `null`, as in seed D's schema.
impl<T: Value> Field for Option<T> {
    fn take(found: Option<Json>, key: &'static str, at: &Path<'_>) -> Result<Self, Unreadable> {
        found.map(|json| T::read(json, &at.key(key))).transpose()
    }

    fn put(&self, keep: Keep) -> Option<Json> {
        self.as_ref().map(|value| value.write(keep))
    }
}

/// A field that may be left out or be `null`: files say both, and both come back as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Maybe<T> {
    /// The key is not there.
    #[default]
    Absent,
    /// The key is there, without a value.
    Null,
    /// The field has this value.
    Is(T),
}

impl<T> Maybe<T> {
    /// The value, if there is one.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }

    /// The value, made first if there is none.
    pub fn get_or_default(&mut self) -> &mut T
    where
        T: Default,
    {
        if !matches!(self, Self::Is(_)) {
            *self = Self::Is(T::default());
        }
        match self {
            Self::Is(value) => value,
            Self::Absent | Self::Null => unreachable!("it was just made"),
        }
    }

    /// Takes over what `newer` says: a value, or that there is none.
    pub fn replace(&mut self, newer: Self) {
        match newer {
            Self::Absent => {}
            newer @ (Self::Null | Self::Is(_)) => *self = newer,
        }
    }
}

impl<T> From<Option<T>> for Maybe<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Is)
    }
}

impl<T: Value> Field for Maybe<T> {
    fn take(found: Option<Json>, key: &'static str, at: &Path<'_>) -> Result<Self, Unreadable> {
        Ok(match found {
            None => Self::Absent,
            Some(Json::Null) => Self::Null,
            Some(json) => Self::Is(T::read(json, &at.key(key))?),
        })
    }

    fn put(&self, keep: Keep) -> Option<Json> {
        match self {
            Self::Absent => None,
            Self::Null => Some(Json::Null),
            Self::Is(value) => Some(value.write(keep)),
        }
    }
}

/// What a file holds beyond the fields of its type, and the order of its keys.
///
/// Two are equal when they hold the same fields: order is kept, and does not count.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// Fields the seed does not know.
    pub fields: Vec<(String, Json)>,
    /// All keys as they stood in the file, when that is not the seed's order.
    order: Vec<String>,
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        same_fields(&self.fields, &other.fields)
    }
}

impl Extra {
    /// Takes over the fields of `newer`.
    pub fn replace(&mut self, newer: Self) {
        for (key, value) in newer.fields {
            match self.fields.iter_mut().find(|(known, _)| *known == key) {
                Some((_, old)) => *old = value,
                None => self.fields.push((key, value)),
            }
        }
    }

    /// The object that has these known fields and the extra ones.
    #[must_use]
    pub fn weave(&self, known: Vec<(&'static str, Option<Json>)>, keep: Keep) -> Json {
        let known = known
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)));
        let mut fields: Vec<(String, Json)> = match keep {
            Keep::Known => return Json::Object(known.collect()),
            Keep::All => known.chain(self.fields.iter().cloned()).collect(),
        };
        if !self.order.is_empty() {
            let ranks: BTreeMap<&str, usize> = self
                .order
                .iter()
                .enumerate()
                .map(|(rank, key)| (key.as_str(), rank))
                .collect();
            // A field that is new goes behind the one it follows in the seed.
            let mut last = 0;
            let mut ranked: Vec<(usize, (String, Json))> = Vec::with_capacity(fields.len());
            for field in fields {
                last = ranks.get(field.0.as_str()).copied().unwrap_or(last);
                ranked.push((last, field));
            }
            ranked.sort_by_key(|(rank, _)| *rank);
            fields = ranked.into_iter().map(|(_, field)| field).collect();
        }
        Json::Object(fields)
    }
}

/// The fields of an object while they are being read.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: Vec<(String, Option<Json>)>,
    at: &'a Path<'a>,
}

impl<'a> Fields<'a> {
    /// The fields of `json`.
    ///
    /// # Errors
    /// When it is no object.
    pub fn of(json: Json, at: &'a Path<'a>) -> Result<Self, Unreadable> {
        match json {
            Json::Object(fields) => Ok(Self {
                entries: fields
                    .into_iter()
                    .map(|(key, value)| (key, Some(value)))
                    .collect(),
                at,
            }),
            other => Err(mismatch("an object", &other, at)),
        }
    }

    /// Reads the field under `key`.
    ///
    /// # Errors
    /// As its type does.
    pub fn take<F: Field>(&mut self, key: &'static str) -> Result<F, Unreadable> {
        let found = self.entries.iter_mut().find(|(name, _)| name == key);
        F::take(found.and_then(|(_, value)| value.take()), key, self.at)
    }

    /// The unknown fields, after all of `known` have been taken.
    #[must_use]
    pub fn rest(self, known: &[&'static str]) -> Extra {
        let present = |key: &&&str| self.entries.iter().any(|(name, _)| name == **key);
        let mut usual: Vec<&str> = known.iter().filter(present).copied().collect();
        let is_extra = |(_, value): &&(String, Option<Json>)| value.is_some();
        usual.extend(
            self.entries
                .iter()
                .filter(is_extra)
                .map(|(key, _)| key.as_str()),
        );
        let is_usual = usual
            .into_iter()
            .eq(self.entries.iter().map(|(key, _)| key.as_str()));
        let order = match is_usual {
            true => Vec::new(),
            false => self.entries.iter().map(|(key, _)| key.clone()).collect(),
        };
        let fields = self
            .entries
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value)))
            .collect();
        Extra { fields, order }
    }
}

/// Declares a type of a dialect: its fields, each with the key it stands under.
macro_rules! document {
    ($(
        $(#[$doc:meta])*
        pub struct $Name:ident {
            $($(#[$field_doc:meta])* $field:ident $key:literal: $Type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name {
            $($(#[$field_doc])* pub $field: $Type,)*
            /// What else the file holds.
            pub extra: $crate::dialect::field::Extra,
        }

        impl $crate::dialect::field::Value for $Name {
            fn read(
                json: $crate::dialect::json::Json,
                at: &$crate::dialect::unreadable::Path<'_>,
            ) -> Result<Self, $crate::dialect::unreadable::Unreadable> {
                let mut fields = $crate::dialect::field::Fields::of(json, at)?;
                $(let $field = fields.take($key)?;)*
                Ok(Self { $($field,)* extra: fields.rest(&[$($key),*]) })
            }

            fn write(
                &self,
                keep: $crate::dialect::field::Keep,
            ) -> $crate::dialect::json::Json {
                use $crate::dialect::field::Field;
                self.extra.weave(vec![$(($key, Field::put(&self.$field, keep))),*], keep)
            }
        }
    )*};
}
pub(super) use document;

/// Declares the words a field can hold. With `or Other`, words that the seed does not know are kept;
/// without, they are refused.
macro_rules! words {
    (
        $(#[$doc:meta])*
        pub enum $Name:ident { $($(#[$word_doc:meta])* $Word:ident $text:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name { $($(#[$word_doc])* $Word,)* }

        impl $Name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Word),*];

            /// The word for it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$Word => $text,)* }
            }
        }

        impl $crate::dialect::field::Value for $Name {
            fn read(
                json: $crate::dialect::json::Json,
                at: &$crate::dialect::unreadable::Path<'_>,
            ) -> Result<Self, $crate::dialect::unreadable::Unreadable> {
                $crate::dialect::field::word(json, at, Self::ALL, |word| word.as_str())
            }

            fn write(
                &self,
                _: $crate::dialect::field::Keep,
            ) -> $crate::dialect::json::Json {
                self.as_str().into()
            }
        }
    };
    (
        $(#[$doc:meta])*
        pub enum $Name:ident or Other { $($(#[$word_doc:meta])* $Word:ident $text:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $Name {
            $($(#[$word_doc])* $Word,)*
            /// A word that the seed does not know.
            Other(String),
        }

        impl $Name {
            /// The word for it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self { $(Self::$Word => $text,)* Self::Other(word) => word }
            }

            /// What the word means.
            #[must_use]
            pub fn from_word(word: &str) -> Self {
                match word { $($text => Self::$Word,)* other => Self::Other(other.to_owned()) }
            }
        }

        impl $crate::dialect::field::Value for $Name {
            fn read(
                json: $crate::dialect::json::Json,
                at: &$crate::dialect::unreadable::Path<'_>,
            ) -> Result<Self, $crate::dialect::unreadable::Unreadable> {
                let word = <String as $crate::dialect::field::Value>::read(json, at)?;
                Ok(Self::from_word(&word))
            }

            fn write(
                &self,
                _: $crate::dialect::field::Keep,
            ) -> $crate::dialect::json::Json {
                self.as_str().into()
            }
        }
    };
}
pub(super) use words;

/// Reads one of the words of `all`.
pub(super) fn word<T: Copy>(
    json: Json,
    at: &Path<'_>,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<T, Unreadable> {
    let word = String::read(json, at)?;
    if let Some(found) = all.iter().find(|known| as_str(**known) == word) {
        return Ok(*found);
    }
    let known: Vec<String> = all.iter().map(|it| format!("`{}`", as_str(*it))).collect();
    Err(at.wrong(Fault::UnknownWord {
        word,
        known: known.join(", "),
    }))
}

/// Another type than expected.
pub(super) fn mismatch(expected: &'static str, found: &Json, at: &Path<'_>) -> Unreadable {
    at.wrong(Fault::WrongType {
        expected,
        found: found.kind(),
    })
}
