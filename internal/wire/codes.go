package wire

import "strconv"

// A Code is the server's verdict on a request; CodeOK is success.
type Code int32

// The codes of ZooKeeper 3.8.
const (
	CodeOK                       Code = 0
	CodeSystemError              Code = -1
	CodeRuntimeInconsistency     Code = -2
	CodeDataInconsistency        Code = -3
	CodeConnectionLoss           Code = -4
	CodeMarshallingError         Code = -5
	CodeUnimplemented            Code = -6
	CodeOperationTimeout         Code = -7
	CodeBadArguments             Code = -8
	CodeNewConfigNoQuorum        Code = -13
	CodeReconfigInProgress       Code = -14
	CodeUnknownSession           Code = -12
	CodeAPIError                 Code = -100
	CodeNoNode                   Code = -101
	CodeNoAuth                   Code = -102
	CodeBadVersion               Code = -103
	CodeNoChildrenForEphemerals  Code = -108
	CodeNodeExists               Code = -110
	CodeNotEmpty                 Code = -111
	CodeSessionExpired           Code = -112
	CodeInvalidCallback          Code = -113
	CodeInvalidACL               Code = -114
	CodeAuthFailed               Code = -115
	CodeSessionMoved             Code = -118
	CodeNotReadOnly              Code = -119
	CodeEphemeralOnLocalSession  Code = -120
	CodeNoWatcher                Code = -121
	CodeRequestTimeout           Code = -122
	CodeReconfigDisabled         Code = -123
	CodeSessionClosedRequireAuth Code = -124
	CodeQuotaExceeded            Code = -125
	CodeThrottledOp              Code = -127
)

var codeNames = map[Code]string{
	CodeOK: "ok", CodeSystemError: "system error", CodeRuntimeInconsistency: "runtime inconsistency",
	CodeDataInconsistency: "data inconsistency", CodeConnectionLoss: "connection loss",
	CodeMarshallingError: "marshalling error", CodeUnimplemented: "unimplemented",
	CodeOperationTimeout: "operation timeout", CodeBadArguments: "bad arguments",
	CodeNewConfigNoQuorum: "no quorum of the new configuration", CodeReconfigInProgress: "reconfiguration in progress",
	CodeUnknownSession: "unknown session", CodeAPIError: "API error", CodeNoNode: "no node",
	CodeNoAuth: "not authorised", CodeBadVersion: "bad version",
	CodeNoChildrenForEphemerals: "ephemeral nodes have no children", CodeNodeExists: "node exists",
	CodeNotEmpty: "not empty", CodeSessionExpired: "session expired", CodeInvalidCallback: "invalid callback",
	CodeInvalidACL: "invalid ACL", CodeAuthFailed: "authentication failed", CodeSessionMoved: "session moved",
	CodeNotReadOnly: "not read-only", CodeEphemeralOnLocalSession: "ephemeral on a local session",
	CodeNoWatcher: "no such watcher", CodeRequestTimeout: "request timeout",
	CodeReconfigDisabled: "reconfiguration disabled", CodeSessionClosedRequireAuth: "session closed: authentication required",
	CodeQuotaExceeded: "quota exceeded", CodeThrottledOp: "throttled",
}

// String names the code.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return "code " + strconv.Itoa(int(c))
}
