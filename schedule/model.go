package schedule

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Model computes the steps of a Scheduler. Run makes all calls, one at a time.
type Model[B backend.Buffer] interface {
	// Forward computes the layers of a planned step, Batch.Append and Batch.Attend in each, and returns after the device is done. Rows
	// are those of step.Parts, one part after another. An error ends all requests of the step.
	Forward(step *Step[B]) error
	// Next chooses the token that follows part i, the last of its request's tokens, and says whether the text ends with it. An
	// error ends this request alone. The step is committed, and the sequence has the part's tokens.
	Next(step *Step[B], i int) (token uint32, last bool, err error)
}

// Step is the tokens of one call of Model.Forward. It is valid until the last Next of the step.
type Step[B backend.Buffer] struct {
	Batch *kvcache.Batch[B]
	Parts []Part[B]
}

// Part is the tokens that one request has in a step, at positions Seq.NextPosition() and on.
type Part[B backend.Buffer] struct {
	Request *Request
	Seq     *kvcache.Sequence[B]
	Tokens  []uint32
	Last    bool // the request has no more tokens: Model.Next is asked for one
	of      *request[B]
}
