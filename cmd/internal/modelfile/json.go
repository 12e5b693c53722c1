package modelfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// JSON is the Field and Why of an ErrFile for an error of encoding/json, without names of Go's types.
func JSON(err error) (field, why string) {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return cmp.Or(wrong.Field, "JSON"), fmt.Sprintf("has a value of type %s, need another type", wrong.Value)
	}
	return "JSON", err.Error()
}
