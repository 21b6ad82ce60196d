//! [`RateLimitFields`] for axum, tonic, and all else that is built on tower.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::RateLimitFields;
use super::collected::{Collection, collect, finish};

impl<S> Layer<S> for RateLimitFields {
    type Service = RateLimitFieldsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitFieldsService { inner, fields: *self }
    }
}

/// What [`RateLimitFields`] makes of a service.
#[derive(Clone, Debug)]
pub struct RateLimitFieldsService<S> {
    inner: S,
    fields: RateLimitFields,
}

impl<S, I, O> Service<Request<I>> for RateLimitFieldsService<S>
where
    S: Service<Request<I>, Response = Response<O>>,
{
    type Response = Response<O>;
    type Error = S::Error;
    type Future = RateLimitFieldsFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        RateLimitFieldsFuture { answer: collect(self.inner.call(request)), fields: self.fields }
    }
}

pin_project! {
    /// A response on its way, and the limits that its request met so far.
    pub struct RateLimitFieldsFuture<F> {
        #[pin]
        answer: TaskLocalFuture<Collection, F>,
        fields: RateLimitFields,
    }
}

impl<F, O, E> Future for RateLimitFieldsFuture<F>
where
    F: Future<Output = Result<Response<O>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut answer = ready!(this.answer.as_mut().poll(context));
        let met = finish(this.answer.take_value());
        if let Ok(response) = &mut answer {
            for (name, value) in this.fields.of(&met) {
                let value = HeaderValue::try_from(value).expect("a field is printable ASCII");
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        Poll::Ready(answer)
    }
}
