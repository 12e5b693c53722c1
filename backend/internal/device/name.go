package device

import (
	"fmt"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Named opens what kind:number names and erases its type: the device of that number, or,
// without one, that which first says. A number that is none is ErrUnavailable.
func Named[B backend.Buffer, D backend.Backend[B]](kind, number string, first func() (int, error), open func(int) (D, error)) (backend.Backend[backend.AnyBuffer], error) {
	var i int
	var err error
	if number == "" {
		i, err = first()
	} else {
		i, err = ordinal(kind, number)
	}
	if err != nil {
		return nil, err
	}
	be, err := open(i)
	if err != nil {
		return nil, err
	}
	return backend.Erase[B](be), nil
}

func ordinal(kind, number string) (int, error) {
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 {
		return 0, backend.ErrUnavailable{Backend: kind + ":" + number, Why: fmt.Sprintf("need %s, or %s:N with N from 0 on", kind, kind)}
	}
	return i, nil
}
