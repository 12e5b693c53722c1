package files

import "errors"

// ErrLocked is a file that another has locked.
var ErrLocked = errors.New("locked by another")
