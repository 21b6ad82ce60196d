//! Names of ours that no name of the user's can meet.

use std::fmt::Display;

use proc_macro2::{Ident, Span};

/// A variable. Hygiene keeps it from the user's variables; the prefix keeps it from constants, which have none.
pub(crate) fn local(name: impl Display) -> Ident {
    Ident::new(&format!("__limiter_{name}"), Span::mixed_site())
}

/// The user's place in the source, with names resolved as ours.
pub(crate) fn at(span: Span) -> Span {
    span.resolved_at(Span::mixed_site())
}
