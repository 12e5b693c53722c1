package main

import (
	"regexp"
	"strings"
)

var (
	object     = regexp.MustCompile(`\bid<(\w+)>`)
	parameters = regexp.MustCompile(`<[^<>]*>`)
	space      = regexp.MustCompile(`\b(?:oneway |class |MTL::|NS::)`)
	prefix     = regexp.MustCompile(`\b(?:MTL|NS)([A-Z])`)
	bytes      = regexp.MustCompile(`\bconst (?:void|char)\b`)
)

// same are types of Objective-C that metal-cpp calls otherwise.
var same = map[string]string{"BOOL": "bool", "instancetype": "_Class*", "ObjectType": "_Object*", "ErrorDomain": "String*"}

// spelled is a type as metal-cpp has it, without namespaces, and without const, which
// Objective-C's objects and numbers do not have, but for that of bytes.
func spelled(t string) string {
	t = object.ReplaceAllString(t, "$1*")
	for parameters.MatchString(t) {
		t = parameters.ReplaceAllString(t, "")
	}
	t = prefix.ReplaceAllString(space.ReplaceAllString(t, ""), "$1")
	if !bytes.MatchString(t) {
		t = strings.ReplaceAll(t, "const ", "")
	}
	t = strings.ReplaceAll(t, " ", "")
	if s, ok := same[t]; ok {
		return s
	}
	return t
}

// method is the fact of a method, whose types are not spelled yet.
func method(header, class, selector, result string, arguments []string) fact {
	for i, a := range arguments {
		arguments[i] = spelled(a)
	}
	return fact{header, "method " + class + " " + selector + " " + spelled(result) + "(" + strings.Join(arguments, ",") + ")"}
}
