//! Limits at home in a web service: a rejected call is a response, every response tells of the limits that its request
//! met, and the client's address is believed only from proxies that are trusted.
//!
//! | | axum | actix-web | tonic |
//! | --- | --- | --- | --- |
//! | a `Rejected` as an answer | `IntoResponse` | `ResponseError` | `Into<Status>` |
//! | fields on all responses | [`RateLimitFields`], a layer | [`RateLimitFields`], a middleware | [`RateLimitFields`], a layer |
//! | who calls | [`ClientAddress`], an extractor | [`ClientAddress`], an extractor | [`TrustedProxies::client`] |

#[cfg(feature = "actix-web")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
mod client_address;
pub(crate) mod collected;
mod fields;
mod forwarded;
mod network;
#[cfg(any(feature = "actix-web", feature = "axum"))]
mod problem;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(feature = "tower")]
mod tower;

#[cfg(feature = "actix-web")]
pub use actix::RateLimitFieldsMiddleware;
pub use client_address::{ClientAddress, TrustedProxies};
pub use collected::met;
pub use fields::RateLimitFields;
pub use network::NetworkError;
#[cfg(feature = "tower")]
pub use tower::{RateLimitFieldsFuture, RateLimitFieldsService};
