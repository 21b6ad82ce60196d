//! At home in tonic.

use std::time::Duration;

use tonic::{Code, Status};

use super::collected::note;
use super::fields::Met;
use crate::{Reason, Rejected};

/// `RESOURCE_EXHAUSTED`, with the time to retry after as a `google.rpc.RetryInfo` where there is one; `UNAVAILABLE` where
/// the limit could not be checked.
impl From<Rejected> for Status {
    fn from(why: Rejected) -> Self {
        note(|| Met::rejected(&why));
        let code = match why.reason() {
            Reason::Unavailable => Code::Unavailable,
            Reason::Exceeded | Reason::TooCostly => Code::ResourceExhausted,
        };
        let message = why.to_string();
        match why.retry_after() {
            Some(time) => {
                let details = status_with_retry_info(code, &message, time);
                Self::with_details(code, message, details.into())
            }
            None => Self::new(code, message),
        }
    }
}

/// A `google.rpc.Status` in the wire format of protocol buffers, with a `google.rpc.RetryInfo` as its only detail.
fn status_with_retry_info(code: Code, message: &str, time: Duration) -> Vec<u8> {
    let delay = [number(1, time.as_secs()), number(2, time.subsec_nanos().into())].concat();
    let retry_info = bytes(1, &delay);
    let any = [bytes(1, b"type.googleapis.com/google.rpc.RetryInfo"), bytes(2, &retry_info)].concat();
    let code = u64::try_from(i32::from(code)).expect("codes count from 0");
    [number(1, code), bytes(2, message.as_bytes()), bytes(3, &any)].concat()
}

/// A field that holds a number.
fn number(field: u8, value: u64) -> Vec<u8> {
    let mut written = vec![field << 3];
    varint(value, &mut written);
    written
}

/// A field that holds bytes, a text, or another message.
fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    let mut written = vec![field << 3 | 2];
    varint(value.len() as u64, &mut written);
    written.extend_from_slice(value);
    written
}

/// Seven bits in each byte, the lowest first; all but the last have their highest bit set.
fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value > 0x7f {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}
