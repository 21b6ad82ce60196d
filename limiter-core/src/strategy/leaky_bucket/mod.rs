#![doc = include_str!("README.md")]

/// The level that the `token_bucket` keeps, read the other way round: not the tokens that are missing, but the water
/// that is in.
pub(crate) use super::token_bucket::Room;
