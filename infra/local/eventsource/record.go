package eventsource

import (
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// sequence is the sequence number of a record, "" if it has none.
func sequence(r types.Record) string {
	if r.Dynamodb == nil {
		return ""
	}
	return aws.ToString(r.Dynamodb.SequenceNumber)
}

// lambdaRecord turns a record of the Streams API into that of a Lambda event.
func lambdaRecord(r types.Record, streamARN string) events.DynamoDBEventRecord {
	record := events.DynamoDBEventRecord{
		AWSRegion: aws.ToString(r.AwsRegion), EventID: aws.ToString(r.EventID), EventName: string(r.EventName),
		EventSource: aws.ToString(r.EventSource), EventVersion: aws.ToString(r.EventVersion), EventSourceArn: streamARN,
	}
	if r.UserIdentity != nil {
		record.UserIdentity = &events.DynamoDBUserIdentity{
			Type: aws.ToString(r.UserIdentity.Type), PrincipalID: aws.ToString(r.UserIdentity.PrincipalId),
		}
	}
	if c := r.Dynamodb; c != nil {
		record.Change = events.DynamoDBStreamRecord{
			ApproximateCreationDateTime: events.SecondsEpochTime{Time: aws.ToTime(c.ApproximateCreationDateTime)},
			Keys:                        image(c.Keys), NewImage: image(c.NewImage), OldImage: image(c.OldImage),
			SequenceNumber: aws.ToString(c.SequenceNumber), SizeBytes: aws.ToInt64(c.SizeBytes),
			StreamViewType: string(c.StreamViewType),
		}
	}
	return record
}

// image is nil for an image that is not there.
func image(item map[string]types.AttributeValue) map[string]events.DynamoDBAttributeValue {
	if item == nil {
		return nil
	}
	attributes := make(map[string]events.DynamoDBAttributeValue, len(item))
	for name, v := range item {
		attributes[name] = attribute(v)
	}
	return attributes
}

func attribute(v types.AttributeValue) events.DynamoDBAttributeValue {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return events.NewStringAttribute(v.Value)
	case *types.AttributeValueMemberN:
		return events.NewNumberAttribute(v.Value)
	case *types.AttributeValueMemberBOOL:
		return events.NewBooleanAttribute(v.Value)
	case *types.AttributeValueMemberB:
		return events.NewBinaryAttribute(v.Value)
	case *types.AttributeValueMemberSS:
		return events.NewStringSetAttribute(v.Value)
	case *types.AttributeValueMemberNS:
		return events.NewNumberSetAttribute(v.Value)
	case *types.AttributeValueMemberBS:
		return events.NewBinarySetAttribute(v.Value)
	case *types.AttributeValueMemberM:
		return events.NewMapAttribute(image(v.Value))
	case *types.AttributeValueMemberL:
		list := make([]events.DynamoDBAttributeValue, len(v.Value))
		for i, element := range v.Value {
			list[i] = attribute(element)
		}
		return events.NewListAttribute(list)
	}
	return events.NewNullAttribute()
}
