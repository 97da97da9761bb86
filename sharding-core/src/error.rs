//! The one error type of the workspace.
//!
//! An [`Error`] is one pointer wide and opaque: [`Error::kind`] is for programs, the text is for people. The text
//! names the op, its operands with dtype, global shape and placements, the mesh axis with its size, the rule
//! that was broken and, after `fix:`, the line that mends it.

use std::fmt;
use std::panic::Location;

/// What went wrong, for programs that decide on it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Shapes, extents or numbers of tensor axes do not fit.
    Shape,
    /// A dtype is not what the operation takes.
    DType,
    /// A tensor axis or mesh axis does not exist, or is used twice.
    Axis,
    /// A mesh axis is used twice in a sharding by names, whether the mesh has it or not.
    DuplicateAxis,
    /// An extent does not divide by the ways of a split that cuts evenly only.
    Indivisible,
    /// A sharding is for tensors of another number of axes.
    Dimensions,
    /// A mesh axis cannot be unreduced or reduced, or what is unreduced was asked who holds which elements.
    Unreduced,
    /// A memory that the devices do not have.
    MemoryKind,
    /// A mesh cannot be built, or two meshes do not agree.
    Mesh,
    /// A placement or mapping is not valid.
    Mapping,
    /// A sharding cannot be spelled in the form asked for without losing information.
    Conversion,
    /// An op cannot run on the placements at hand, or would have to move what the policy forbids.
    Sharding,
    /// A plain argument of an op is out of its domain.
    Argument,
    /// A size does not fit the arithmetic of this machine.
    Overflow,
    /// A file cannot be read or written, is damaged, or has not what is asked of it.
    File,
    /// An op, kernel or backend is not registered, or is registered twice.
    Registry,
    /// A backend cannot do what was asked (missing driver, unsupported primitive, no memory).
    Backend,
    /// A local kernel failed or panicked.
    Kernel,
    /// Processes disagree, or one is lost.
    Process,
    /// The devices of a manual region do not call the same collectives, one of them panicked, or a result is not what its
    /// spec claims.
    Manual,
    /// An invariant of this library is broken: please report it.
    Internal,
}

/// The error of every fallible function in the workspace: opaque, one pointer wide.
pub struct Error(Box<Inner>);

/// An [`Error`] of kind [`ErrorKind::Sharding`].
pub type ShardingError = Error;
/// An [`Error`] of kind [`ErrorKind::Conversion`].
pub type ConversionError = Error;
/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

struct Inner {
    kind: ErrorKind,
    message: String,
    op: Option<String>,
    operands: Vec<String>,
    mesh_axis: Option<(String, usize)>,
    detail: Option<String>,
    fix: Option<String>,
    location: Option<&'static Location<'static>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A new error; add what is known with the `with_` methods.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            op: None,
            operands: Vec::new(),
            mesh_axis: None,
            detail: None,
            fix: None,
            location: None,
            source: None,
        }))
    }

    /// Names the op, unless an inner call already did.
    #[must_use]
    pub fn with_op(mut self, op: impl Into<String>) -> Self {
        self.0.op.get_or_insert_with(|| op.into());
        self
    }

    /// Adds the text of each operand (`lhs: f32[4, 8] {tp: Sharded(1)}`), unless they are already there.
    #[must_use]
    pub fn with_operands<S: Into<String>>(mut self, operands: impl IntoIterator<Item = S>) -> Self {
        if self.0.operands.is_empty() {
            self.0.operands = operands.into_iter().map(Into::into).collect();
        }
        self
    }

    /// Names the mesh axis and its size.
    #[must_use]
    pub fn with_mesh_axis(mut self, name: impl Into<String>, size: usize) -> Self {
        self.0.mesh_axis.get_or_insert_with(|| (name.into(), size));
        self
    }

    /// Adds lines that explain it (the candidates of a plan); they stand between the operands and the fix.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail.get_or_insert_with(|| detail.into());
        self
    }

    /// The line of code that mends it.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.0.fix.get_or_insert_with(|| fix.into());
        self
    }

    /// Where the op was called, unless an inner call already said.
    #[must_use]
    pub fn with_location(mut self, location: &'static Location<'static>) -> Self {
        self.0.location.get_or_insert(location);
        self
    }

    /// The error beneath this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error once more, for another device; of what lies beneath, the text.
    pub(crate) fn again(&self) -> Self {
        let inner = &*self.0;
        Self(Box::new(Inner {
            kind: inner.kind,
            message: inner.message.clone(),
            op: inner.op.clone(),
            operands: inner.operands.clone(),
            mesh_axis: inner.mesh_axis.clone(),
            detail: inner.detail.clone(),
            fix: inner.fix.clone(),
            location: inner.location,
            source: inner.source.as_ref().map(|source| source.to_string().into()),
        }))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The op that was called, if the error came from one.
    pub fn op(&self) -> Option<&str> {
        self.0.op.as_deref()
    }
    /// The text of each operand: name, dtype, global shape and placements.
    pub fn operands(&self) -> &[String] {
        &self.0.operands
    }
    /// The mesh axis by name and size.
    pub fn mesh_axis(&self) -> Option<(&str, usize)> {
        self.0.mesh_axis.as_ref().map(|(name, size)| (name.as_str(), *size))
    }
    /// The line that mends it.
    pub fn fix(&self) -> Option<&str> {
        self.0.fix.as_deref()
    }
    /// The lines that explain it.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }
    /// Where the op was called.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.0.location
    }
    /// The message without op, operands, axis, detail and fix.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(op) = &inner.op {
            write!(f, "{op}: ")?;
        }
        f.write_str(&inner.message)?;
        if let Some((name, size)) = &inner.mesh_axis {
            write!(f, " (mesh axis '{}' of size {size})", crate::text::clean(name))?;
        }
        for operand in &inner.operands {
            write!(f, "\n  {operand}")?;
        }
        for line in inner.detail.iter().flat_map(|detail| detail.lines()) {
            write!(f, "\n  {line}")?;
        }
        if let Some(fix) = &inner.fix {
            write!(f, "\n  fix: {fix}")?;
        }
        if let Some(location) = inner.location {
            write!(f, "\n  at {}", crate::trace::place(location))?;
        }
        if let Some(source) = &inner.source {
            write!(f, "\n  because: {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:?}] {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

/// Shorthand for `Err(Error::new(kind, format!(..)))`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($message:tt)*) => {
        return ::core::result::Result::Err($crate::Error::new($crate::ErrorKind::$kind, ::std::format!($($message)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_pointer_wide_and_says_everything() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::new(ErrorKind::Shape, "inner extents differ: 8 and 6")
            .with_op("matmul")
            .with_operands(["lhs: f32[4, 8]", "rhs: f32[6, 2]"])
            .with_mesh_axis("tp", 2)
            .with_fix("permute(&rhs, &[1, 0])");
        assert_eq!(
            error.to_string(),
            "matmul: inner extents differ: 8 and 6 (mesh axis 'tp' of size 2)\n  lhs: f32[4, 8]\n  rhs: f32[6, 2]\n  fix: permute(&rhs, &[1, 0])"
        );
        assert_eq!(error.kind(), ErrorKind::Shape);
    }
}
