package device

import (
	"fmt"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Ordinal is the number of a device that is named kind:number. ErrUnavailable when it is none.
func Ordinal(kind, number string) (int, error) {
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 {
		return 0, backend.ErrUnavailable{Backend: kind + ":" + number, Why: fmt.Sprintf("need %s, or %s:N with N from 0 on", kind, kind)}
	}
	return i, nil
}
