//! At home in axum.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::problem::{CONTENT_TYPE, Problem};
use super::{ClientAddress, TrustedProxies};
use crate::{FromRejected, Rejected};

/// 429 with `Retry-After` and the fields of the limit; 503 where the limit could not be checked.
impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        let Problem { status, fields, body } = Problem::of(&self);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        for (name, value) in fields {
            let value = HeaderValue::try_from(value).expect("a field is printable ASCII");
            headers.insert(HeaderName::from_static(name), value);
        }
        response
    }
}

/// For handlers that return `Result<_, Response>`.
impl From<Rejected> for Response {
    fn from(rejected: Rejected) -> Self {
        rejected.into_response()
    }
}

impl FromRejected for Response {
    fn from_rejected(rejected: Rejected) -> Self {
        rejected.into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() else {
            return Err((
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server does not know its peers: serve the router by \
                 `into_make_service_with_connect_info::<SocketAddr>()`",
            ));
        };
        Ok(match parts.extensions.get::<TrustedProxies>() {
            None => Self::new(peer.ip()),
            Some(proxies) => {
                let lines = parts.headers.get_all(proxies.field_name());
                proxies.client(peer.ip(), lines.into_iter().map(HeaderValue::as_bytes))
            }
        })
    }
}
