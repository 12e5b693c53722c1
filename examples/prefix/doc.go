// Package prefix shows a system prompt that many users share. Its keys and values are
// computed once. A later turn of a conversation does not compute the earlier ones again.
// A tenant with its own salt neither gets nor sees what others have.
//
// There is nothing to switch on: a paged pool keeps what its sequences computed until
// other sequences need the memory. Pool.Open says how much of a prompt it has, and the
// runner adds only the rest to its steps.
package prefix
