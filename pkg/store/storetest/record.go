package storetest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// Row is the row of a server that has been well for an hour of rounds, ten
// seconds apart.
func Row(group, server string, address netip.Addr, round time.Time) store.ProbeRow {
	since := round.Truncate(time.Hour)
	rounds := int(round.Sub(since)/(10*time.Second)) + 1
	return store.ProbeRow{
		Group: group, Server: server, Address: netip.AddrPortFrom(address, 1812).String(), Method: "pap",
		Round: round, Outcome: health.Accept, ReplyMessage: "Welcome", LatencyMS: 3.217, Transmissions: 1,
		RecentLatencyMS:      strings.TrimSpace(strings.Repeat(" 3.2", 30)),
		ConsecutiveSuccesses: rounds, SuccessSince: since, LastSuccess: round,
		LastFailure: since.Add(-10 * time.Second), LastFailureOutcome: health.Timeout,
		MessageAuthenticatorSeen: true, CredentialStage: "AWSCURRENT",
		Requests: int64(rounds) + 8, Retransmits: 17, Accepts: int64(rounds), Timeouts: 8, LatencyMSSum: 3.217 * float64(rounds),
	}
}

// Record is the record of an update in the stream of table probes, as Lambda
// gives it to a function.
func Record(sequence int, before, after store.ProbeRow) (json.RawMessage, error) {
	old, err := image(before)
	if err != nil {
		return nil, err
	}
	updated, err := image(after)
	if err != nil {
		return nil, err
	}
	type attribute map[string]any
	return json.Marshal(map[string]any{
		"eventID": fmt.Sprintf("%032x", sequence), "eventName": "MODIFY", "eventVersion": "1.1",
		"eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
		"eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/probes/stream/2026-01-01T00:00:00.000",
		"dynamodb": map[string]any{
			"ApproximateCreationDateTime": after.Round.Unix(),
			"Keys":                        map[string]attribute{"group": {"S": after.Group}, "server": {"S": after.Server}},
			"NewImage":                    updated, "OldImage": old,
			"SequenceNumber": strconv.Itoa(sequence), "SizeBytes": 1400, "StreamViewType": "NEW_AND_OLD_IMAGES",
		},
	})
}

// image is a row in DynamoDB's JSON.
func image(row store.ProbeRow) (map[string]map[string]any, error) {
	item, err := attributevalue.MarshalMapWithOptions(row, func(o *attributevalue.EncoderOptions) {
		o.EncodeTime = func(t time.Time) (types.AttributeValue, error) {
			if t.IsZero() {
				return &types.AttributeValueMemberNULL{Value: true}, nil
			}
			return &types.AttributeValueMemberS{Value: t.UTC().Format("2006-01-02T15:04:05.000Z")}, nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("encoding row %s/%s: %w", row.Group, row.Server, err)
	}
	attributes := map[string]map[string]any{}
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			if v.Value != "" {
				attributes[name] = map[string]any{"S": v.Value}
			}
		case *types.AttributeValueMemberN:
			attributes[name] = map[string]any{"N": v.Value}
		case *types.AttributeValueMemberBOOL:
			attributes[name] = map[string]any{"BOOL": v.Value}
		}
	}
	return attributes, nil
}
