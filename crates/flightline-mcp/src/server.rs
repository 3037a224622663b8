//! The MCP server: it lists tools, resources and prompts, and answers calls of them.

use std::sync::Arc;

use flightline::core::{Code, Refusal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerCapabilities, ServerConfig, Tool as Described,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::runner::OperationRunner;
use crate::tool::{self, Loaded};
use crate::{prompt, resource};

/// The instructions that a client gets when it connects, before anything else.
const INSTRUCTIONS: &str = "You are an agent of a fleet whose memory outlives your context. Call fleet_context first, and whenever you lost context; acknowledge it. Claim work with fleet_sortie, lock files with fleet_lock before you edit them, report each step, record decisions with fleet_note. If the fleet does not know you, pass your name as `agent`.";

#[derive(Clone)]
pub(crate) struct Server {
    runner: Arc<dyn OperationRunner>,
    loaded: Loaded,
}

impl Server {
    pub(crate) fn new(runner: impl OperationRunner, loaded: Loaded) -> Self {
        Self {
            runner: Arc::new(runner),
            loaded,
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        let version = flightline::remote::VERSION;
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("flightline", version).with_title("Flightline"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tool::loaded(self.loaded).map(tool::Tool::described);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Described> {
        tool::find(name).map(tool::Tool::described)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // A tool that is not loaded works all the same: it is only not advertised.
        let tool = tool::find(&request.name).ok_or_else(|| {
            ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None)
        })?;
        let called = tool.call(self.runner.as_ref(), self.loaded, request.arguments);
        Ok(called.await.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resource::listed()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = resource::templates();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resource::read(self.runner.as_ref(), &request.uri).await;
        let contents = read.map_err(|refusal| error(&refusal))?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompt::listed()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let made = prompt::make(self.runner.as_ref(), &request.name, request.arguments).await;
        Ok(made.map_err(|refusal| error(&refusal))?.into())
    }
}

/// A refusal as an error of the protocol, where there is no result that could tell it.
fn error(refusal: &Refusal) -> ErrorData {
    let code = match refusal.code {
        Code::NotFound | Code::AmbiguousId => ErrorCode::RESOURCE_NOT_FOUND,
        Code::InvalidInput | Code::TooLong => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let message = match &refusal.hint {
        Some(hint) => format!("{}; {hint}", refusal.message),
        None => refusal.message.clone(),
    };
    ErrorData::new(code, message, Some(json!({ "code": refusal.code })))
}
