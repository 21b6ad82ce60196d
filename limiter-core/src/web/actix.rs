//! At home in actix-web.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse, ResponseError};

use super::collected::{collect, finish};
use super::fields::Field;
use super::problem::{CONTENT_TYPE, Problem, status};
use super::{ClientAddress, RateLimitFields, TrustedProxies};
use crate::{FromRejected, Rejected};

/// 429 with `Retry-After` and the fields of the limit; 503 where the limit could not be checked.
impl ResponseError for Rejected {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(status(self)).expect("a status")
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let Problem { status, fields, body } = Problem::of(self);
        let status = StatusCode::from_u16(status).expect("a status");
        let mut response = HttpResponse::build(status).content_type(CONTENT_TYPE).body(body);
        insert(response.headers_mut(), fields);
        response
    }
}

impl FromRejected for HttpResponse {
    fn from_rejected(rejected: Rejected) -> Self {
        rejected.error_response()
    }
}

impl FromRequest for ClientAddress {
    type Error = Error;
    type Future = std::future::Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready(client(request))
    }
}

fn client(request: &HttpRequest) -> Result<ClientAddress, Error> {
    let Some(peer) = request.peer_addr() else {
        return Err(actix_web::error::ErrorInternalServerError("the server does not know its peers"));
    };
    Ok(match request.app_data::<TrustedProxies>() {
        None => ClientAddress::new(peer.ip()),
        Some(proxies) => {
            let lines = request.headers().get_all(proxies.field_name());
            proxies.client(peer.ip(), lines.map(HeaderValue::as_bytes))
        }
    })
}

impl<S, B> Transform<S, ServiceRequest> for RateLimitFields
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>>,
    S::Future: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = S::Error;
    type InitError = ();
    type Transform = RateLimitFieldsMiddleware<S>;
    type Future = std::future::Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        std::future::ready(Ok(RateLimitFieldsMiddleware { inner, fields: *self }))
    }
}

/// What [`RateLimitFields`] makes of a service of actix-web.
#[derive(Debug)]
pub struct RateLimitFieldsMiddleware<S> {
    inner: S,
    fields: RateLimitFields,
}

impl<S, B> Service<ServiceRequest> for RateLimitFieldsMiddleware<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>>,
    S::Future: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>>>>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let fields = self.fields;
        let answer = collect(self.inner.call(request));
        Box::pin(async move {
            let mut answer = std::pin::pin!(answer);
            let mut response = answer.as_mut().await?;
            insert(response.headers_mut(), fields.of(&finish(answer.take_value())));
            Ok(response)
        })
    }
}

fn insert(headers: &mut HeaderMap, fields: Vec<Field>) {
    for (name, value) in fields {
        let value = HeaderValue::try_from(value).expect("a field is printable ASCII");
        headers.insert(HeaderName::from_static(name), value);
    }
}
