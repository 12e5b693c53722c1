package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
)

// Error is an error as clients know it.
type Error struct {
	Status  int // of HTTP
	Message string
	Param   string // the field
	Code    string
}

func (e Error) Error() string { return e.Message }

// kinds are the types of errors, by status.
var kinds = map[int]string{http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "service_unavailable_error", http.StatusInternalServerError: "server_error"}

// MarshalJSON is the object that an answer has as error.
func (e Error) MarshalJSON() ([]byte, error) {
	object := map[string]any{"message": e.Message, "type": cmp.Or(kinds[e.Status], "invalid_request_error"), "param": nil, "code": nil}
	if e.Param != "" {
		object["param"] = e.Param
	}
	if e.Code != "" {
		object["code"] = e.Code
	}
	return json.Marshal(object)
}

// bad is a field that cannot be taken; "": the request.
func bad(field, format string, a ...any) error {
	e := Error{Status: http.StatusBadRequest, Param: field, Message: fmt.Sprintf(format, a...)}
	if field != "" {
		e.Message = field + ": " + e.Message
	}
	return e
}
