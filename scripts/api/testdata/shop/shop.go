// Package shop declares one object of each kind that an API can have.
package shop

import (
	"io"
	"time"

	"example.org/shop/internal/hidden"
	"example.org/shop/parts"
)

type Colour uint8

const (
	Red Colour = iota + 1
	Green
	unseen
)

const (
	Pi    = 3.25
	Limit = 1 << 40
	Name  = "shop"
)

var ErrEmpty error

var (
	Table   = map[string][]Colour{}
	hidden_ int
)

// Open has parameters whose names do not count, also those of the function that it takes.
func Open(name string, visit func(key string, at int) (stop bool), rest ...io.Reader) (b *Box[int], err error) {
	return nil, nil
}

func Sum[T Number, S ~[]T](of S) (sum T) { return sum }

func closed() {}

type Number interface{ ~int | ~float64 }

type Box[T any] struct {
	*Lid
	inner
	parts.Wheel `json:"wheel"`
	Size        int           `json:"size,omitempty"`
	Wait        time.Duration // with a comment
	Each        func(i int) bool
	secret      T
}

func (b *Box[T]) Put(value T) error    { return nil }
func (b Box[T]) Chan() <-chan struct{} { return nil }
func (b *Box[T]) unlock()              {}

type Lid struct{}

func (l *Lid) Lift() {}

type inner struct{ Depth int }

func (i inner) Reach() int { return i.Depth }

type Keeper interface {
	io.Closer
	Keep(what any) error
}

type Sealed interface {
	Keeper
	seal()
}

type Visit func(b *Box[string], done func(err error))

type Alias = parts.Wheel

type Raised = hidden.Fault

type Pairs[K comparable] = map[K]parts.Wheel
