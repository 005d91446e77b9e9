"""Amazon Bedrock: Converse, and models invoked in their own formats."""
