//! The derive of JSON schemas, in a build that makes none: types name it all the same. With a crate's feature `schema`, its
//! `crate::Schema` is that of schemars.

use proc_macro::TokenStream;

/// Derives nothing.
#[proc_macro_derive(Schema, attributes(schemars))]
pub fn schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
