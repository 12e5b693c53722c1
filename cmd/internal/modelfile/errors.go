// Package modelfile is what readers of models' files have in common, for weights, configurations and vocabularies: their errors, and
// files in memory.
package modelfile

import "fmt"

// ErrFile is a model or tokenizer file that is damaged, cut or contradicts
// itself. errors.Is(err, ErrFile{}) matches any.
type ErrFile struct {
	File  string // name of the file
	Field string // what in it: "tensor model.norm.weight", "header"
	Why   string // what is wrong with it
}

func (e ErrFile) Error() string        { return fmt.Sprintf("%s: %s: %s", e.File, e.Field, e.Why) }
func (e ErrFile) Is(target error) bool { return target == e || target == ErrFile{} }

// ErrUnsupported is a sound file that asks for what this runner does not have.
// errors.Is(err, ErrUnsupported{}) matches any.
type ErrUnsupported struct {
	File    string
	Feature string // "rope_scaling of type dynamic"
	Remedy  string // what is supported, and what to do; "": nothing is known
}

func (e ErrUnsupported) Error() string {
	text := e.File + ": " + e.Feature + " is not supported by this runner"
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}
func (e ErrUnsupported) Is(target error) bool { return target == e || target == ErrUnsupported{} }
