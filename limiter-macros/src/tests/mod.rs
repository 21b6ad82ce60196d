//! The attribute as a whole: what it expands to, what it reports, and that nothing makes it panic.

mod expansion;
mod messages;
mod mistakes;
mod nonsense;
