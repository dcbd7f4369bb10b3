//! Evidence about sandboxed tasks, read from outside, and the verdict on it.
