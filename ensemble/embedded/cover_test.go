package embedded_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// A scriptedCase is one line of a script and its answers.
type scriptedCase struct {
	request string // without the session's name
	answers []string
}

func allCases(t *testing.T) []scriptedCase {
	t.Helper()
	var cases []scriptedCase
	for _, set := range settings {
		for _, file := range scripts(t, set.folder) {
			for line := range strings.Lines(string(must(os.ReadFile(file)))) {
				line = strings.TrimSuffix(line, "\n")
				switch {
				case strings.HasPrefix(line, "< "):
					last := &cases[len(cases)-1]
					last.answers = append(last.answers, line[2:])
				case line != "" && line[0] != '#':
					_, request, _ := strings.Cut(line, " ")
					cases = append(cases, scriptedCase{request: request})
				}
			}
		}
	}
	return cases
}

// clientCodes are the errors that a client can provoke on a server that
// stands alone, is set up as usual, and is told to enforce quotas. The package's
// documentation says of each other why a client cannot.
var clientCodes = []wire.Code{
	wire.CodeRuntimeInconsistency, // the rest of a multi
	wire.CodeMarshallingError, wire.CodeUnimplemented, wire.CodeBadArguments, wire.CodeNoNode, wire.CodeNoAuth,
	wire.CodeBadVersion, wire.CodeNoChildrenForEphemerals, wire.CodeNodeExists, wire.CodeNotEmpty,
	wire.CodeInvalidACL, wire.CodeAuthFailed, wire.CodeNoWatcher, wire.CodeReconfigDisabled, wire.CodeQuotaExceeded,
}

// The scripts are enough: this fails when cases are lost.
func TestScriptsCoverEverything(t *testing.T) {
	cases := allCases(t)
	distinct, ops, answers := map[string]bool{}, map[string]bool{}, " "
	for _, c := range cases {
		distinct[c.request+strings.Join(c.answers, "\n")] = true
		for request := range strings.SplitSeq(c.request, " & ") {
			op, rest, _ := strings.Cut(request, " ")
			ops[op] = true
			if op == "multi" || op == "multiRead" {
				for part := range strings.SplitSeq(rest, " ; ") {
					word, _, _ := strings.Cut(part, " ")
					ops[op+" "+word] = true
				}
			}
		}
		answers += strings.Join(c.answers, " ") + " "
	}
	t.Logf("%d cases, %d of them distinct, %d operations", len(cases), len(distinct), len(ops))
	if len(distinct) < 250 {
		t.Errorf("%d distinct cases, at least 250 are wanted", len(distinct))
	}
	for name, op := range opByName {
		// notify and error are no requests; sasl is not there.
		if op == wire.OpNotify || op == wire.OpError || op == wire.OpSASL {
			continue
		}
		if !ops[name] && !ops[strconv.Itoa(int(op))] {
			t.Errorf("no script has the operation %s", name)
		}
	}
	for _, code := range clientCodes {
		if !strings.Contains(answers, " "+strconv.Itoa(int(code))+" ") {
			t.Errorf("no script provokes %v (%d)", code, code)
		}
	}
	everyCodeIsExplained(t)
	for part := range strings.FieldsSeq("create create2 createContainer createTTL delete setData check") {
		if !ops["multi "+part] {
			t.Errorf("no multi has %s", part)
		}
	}
}

// everyCodeIsExplained looks for the codes that no script provokes in doc.go.
func everyCodeIsExplained(t *testing.T) {
	t.Helper()
	doc := string(must(os.ReadFile("doc.go")))
	for code := wire.Code(-1); code > -200; code-- {
		if unknown := strings.HasPrefix(code.String(), "code "); unknown || slices.Contains(clientCodes, code) {
			continue
		}
		if !regexp.MustCompile(`[^0-9]` + strconv.Itoa(int(code)) + `\b`).MatchString(doc) {
			t.Errorf("no script provokes %v (%d), and doc.go does not say why", code, code)
		}
	}
}

// One script leaves a watch in every way, on a node that is there and on one
// that is not, and makes every change after each.
func TestScriptsCoverWatches(t *testing.T) {
	text := string(must(os.ReadFile("testdata/watchrules.script")))
	blocks := strings.Split(text, "\n# ")[2:]
	if len(blocks) != 22 {
		t.Fatalf("%d combinations, want 11 ways to leave a watch, each twice", len(blocks))
	}
	for _, block := range blocks {
		title, _, _ := strings.Cut(block, "\n")
		for _, change := range []string{
			"v setData", "v setACL", "v create", "v delete", "v multi", "-103 bad version", "w removeWatches",
		} {
			if !strings.Contains(block, "\n"+change) && !strings.Contains(block, "\n< "+change) {
				t.Errorf("%s: no %q", title, change)
			}
		}
	}
	for event := range strings.SplitSeq("created deleted changed children", " ") {
		if !strings.Contains(text, "\n< w: "+event+" /") {
			t.Errorf("no event %q", event)
		}
	}
}

// Each fault, and each way to look inside, has an example.
func TestEveryMethodHasAnExample(t *testing.T) {
	var text string
	for _, file := range must(filepath.Glob("example*_test.go")) {
		text += string(must(os.ReadFile(file)))
	}
	server := reflect.TypeFor[*embedded.Server]()
	for i := range server.NumMethod() {
		method := server.Method(i)
		switch method.Name {
		case "Servers", "Chroot", "DialContext": // for package framework
			continue
		case "Serve", "Close": // in other examples
			continue
		}
		if !strings.Contains(text, "func ExampleServer_"+method.Name+"()") {
			t.Errorf("no example of %s", method.Name)
		}
	}
}
