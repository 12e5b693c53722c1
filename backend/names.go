package backend

import (
	"fmt"
	"strconv"
	"strings"
)

// Enumerations whose values are 0 to a last one are in JSON by the names that String gives them.

type enumeration interface {
	~uint8
	fmt.Stringer
}

// nameText is the name of a value.
func nameText[E enumeration](kind string, v, last E) ([]byte, error) {
	if v > last {
		return nil, ErrConfig{Package: "backend", Name: kind, Value: strconv.Itoa(int(v)), Why: fmt.Sprintf("accepts 0 to %d", last)}
	}
	return []byte(v.String()), nil
}

// parseName sets the value that has a name.
func parseName[E enumeration](kind string, text []byte, to *E, last E) error {
	var names []string
	for v := E(0); v <= last; v++ {
		if v.String() == string(text) {
			*to = v
			return nil
		}
		names = append(names, v.String())
	}
	return ErrConfig{Package: "backend", Name: kind, Value: string(text), Why: "accepts " + strings.Join(names, ", ")}
}
