package main

import (
	"regexp"
	"strings"
)

// page is the header of what metal-cpp lacks.
const page = "a page"

var (
	inHeader = regexp.MustCompile(`//.*?\b([A-Z]+[A-Za-z]*\.hpp)`)
	onPage   = regexp.MustCompile(`//.* ?[a-z]+/\S+`)

	ourClass    = regexp.MustCompile(`^@(?:interface|protocol) (\w+)(?:<\w+>)? *[:<] *(\w+)`)
	ourEnum     = regexp.MustCompile(`NS_(?:ENUM|OPTIONS)\((\w+), (\w+)\) \{`)
	ourValue    = regexp.MustCompile(`^\s+(\w+) = (\d+),`)
	ourStruct   = regexp.MustCompile(`^typedef struct`)
	ourField    = regexp.MustCompile(`^\s+(NSU?Integer) ([\w, ]+);`)
	ourName     = regexp.MustCompile(`^\} (\w+);`)
	ourProperty = regexp.MustCompile(`^@property \((\w+)\) (.*[ *])(\w+);`)
	ourBlock    = regexp.MustCompile(`^typedef void \(\^(\w+)\)\((.*)\);`)
	ourFunction = regexp.MustCompile(`^FOUNDATION_EXPORT (.*[ *])(\w+)\(void\);`)
	ourConstant = regexp.MustCompile(`^FOUNDATION_EXPORT .*\bconst \w+;`)
	ourMethod   = regexp.MustCompile(`^[-+] \(`)
	ourResult   = regexp.MustCompile(`\(([^()]*)\)(\w+)`)
	ourArgument = regexp.MustCompile(`(\w+:)\(([^()]*)\)`)
)

// declared are the facts of a header of ours. A line without a header in its comment has
// that of the type it stands in.
func declared(text string) (facts []fact) {
	var outer, class, fields, pending string
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "//")
		code = strings.TrimRight(code, " \n")
		header := outer
		if m := inHeader.FindStringSubmatch(line); m != nil {
			header = m[1]
		} else if onPage.MatchString(line) {
			header = page
		}
		add := func(words ...string) { facts = append(facts, fact{header, strings.Join(words, " ")}) }

		if pending != "" || ourMethod.MatchString(code) {
			pending += " " + code
			if !strings.HasSuffix(code, ";") {
				continue
			}
			var selector string
			var arguments []string
			for _, m := range ourArgument.FindAllStringSubmatch(pending, -1) {
				selector += m[1]
				arguments = append(arguments, m[2])
			}
			m := ourResult.FindStringSubmatch(pending)
			if selector == "" {
				selector = m[2]
			}
			facts = append(facts, method(header, class, selector, m[1], arguments))
			pending = ""
		} else if m := ourClass.FindStringSubmatch(code); m != nil {
			outer, class = header, spelled(m[1])
			if class != "Object" {
				add("class", class, spelled(m[2]))
			}
		} else if strings.HasPrefix(code, "@protocol NSObject") {
			outer, class = header, "Object"
		} else if m := ourEnum.FindStringSubmatch(code); m != nil {
			outer, class = header, spelled(m[2])
			add("enum", class, spelled(m[1]))
		} else if m := ourValue.FindStringSubmatch(code); m != nil {
			add("value", class, spelled(m[1]), m[2])
		} else if ourStruct.MatchString(code) {
			outer, fields = header, ""
		} else if m := ourField.FindStringSubmatch(code); m != nil {
			for name := range strings.SplitSeq(m[2], ", ") {
				fields += " " + spelled(m[1]) + " " + name
			}
		} else if m := ourName.FindStringSubmatch(code); m != nil {
			add("struct", spelled(m[1])+fields)
			outer = ""
		} else if m := ourProperty.FindStringSubmatch(code); m != nil {
			facts = append(facts, method(header, class, m[3], m[2], nil))
			if m[1] == "readwrite" {
				setter := "set" + strings.ToUpper(m[3][:1]) + m[3][1:] + ":"
				facts = append(facts, method(header, class, setter, "void", []string{m[2]}))
			}
		} else if m := ourBlock.FindStringSubmatch(code); m != nil {
			add("block", spelled(m[1]), spelled(m[2]))
		} else if m := ourFunction.FindStringSubmatch(code); m != nil {
			add("function", m[2], spelled(m[1]))
		} else if ourConstant.MatchString(code) {
			add("constant", code)
		} else if strings.HasPrefix(code, "@end") || strings.HasPrefix(code, "}") {
			outer = ""
		}
	}
	return facts
}
