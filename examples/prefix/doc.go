// Package prefix shows a system prompt that many users share. Its keys and values are
// computed once and never copied as a whole; what a conversation has so far is not
// computed again in its next turn; and a tenant with a salt of its own neither gets
// nor sees what others have.
//
// There is nothing to switch on: a paged pool keeps what its sequences computed for
// as long as nobody needs the room. Pool.Open says how much of a prompt it has, and
// the runner adds only the rest to its steps.
package prefix
