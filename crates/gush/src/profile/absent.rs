//! Without the feature `profile` nobody can give a profile: types of which there is no value.

use std::fmt;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::method::MethodName;
use crate::tuning::Measured;

#[derive(Debug)]
pub(crate) enum Profile {}

#[derive(Debug)]
pub(crate) enum Rule {}

impl Profile {
    pub(crate) fn notes(&self) -> &[String] {
        match *self {}
    }

    pub(crate) fn is_empty(&self) -> bool {
        match *self {}
    }

    pub(crate) fn rule_for(&self, _: &Endpoint<'_>, _: &Endpoint<'_>, _: u64) -> Option<&Rule> {
        match *self {}
    }
}

impl Rule {
    pub(crate) fn methods(&self) -> &[MethodName] {
        match *self {}
    }

    pub(crate) fn measured_for(&self, _: MethodName) -> Measured {
        match *self {}
    }

    pub(crate) fn spin(&self) -> Option<Duration> {
        match *self {}
    }

    pub(crate) fn threads(&self) -> Option<usize> {
        match *self {}
    }

    pub(crate) fn threads_for(&self, _: MethodName) -> Option<usize> {
        match *self {}
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
